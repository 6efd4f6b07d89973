#include "trainer/metrics/average_precision.h"

#include <gtest/gtest.h>
#include <cmath>

namespace rollcall::metrics {
namespace {

TEST(AveragePrecision, IsThePrecisionAtEachScoreByTheRecallThatItAdds) {
  // The example in scikit-learn's documentation of average_precision_score.
  EXPECT_DOUBLE_EQ(average_precision({{0.1, false}, {0.4, false}, {0.35, true}, {0.8, true}}), 1.0 / 2 + 2.0 / 3 / 2);
  EXPECT_DOUBLE_EQ(average_precision({{3, true}, {2, true}, {-1, false}}), 1);
}

TEST(AveragePrecision, ImagesWithTheSameScoreCountTogether) {
  EXPECT_DOUBLE_EQ(average_precision({{1, true}, {1, false}, {1, false}, {1, true}}), 0.5);
  EXPECT_DOUBLE_EQ(average_precision({{1, false}, {1, true}, {0, true}}), (0.5 + 2.0 / 3) / 2);
}

TEST(AveragePrecision, IsZeroWithoutPositivesOrImages) {
  EXPECT_EQ(average_precision({{0.3, false}, {0.7, false}}), 0);
  EXPECT_EQ(average_precision({}), 0);
}

TEST(AveragePrecision, AScoreThatIsNoNumberIsTheLowest) {
  EXPECT_DOUBLE_EQ(average_precision({{std::nan(""), true}, {-5, false}, {2, true}}), (1 + 2.0 / 3) / 2);
}

}  // namespace
}  // namespace rollcall::metrics
