#include "trainer/train/stop_request.h"

#include <gtest/gtest.h>

namespace rollcall::train {
namespace {

TEST(TimeLimit, IsNearSoManySecondsBeforeTheEndAndStaysSo) {
  TimeLimit limit(60, 1000, {});
  EXPECT_FALSE(limit.near(939));
  EXPECT_TRUE(limit.near(940));
  EXPECT_TRUE(limit.near(900));
  EXPECT_EQ(TimeLimit(60, 1000, {}).seconds_left(900), 40);
}

TEST(TimeLimit, IsAskedForAgainBeforeItEndsARun) {
  int asked = 0;
  TimeLimit limit(60, 1000, [&](double /*now*/) {
    ++asked;
    return std::optional(asked == 1 ? 2000.0 : 1999.0);
  });
  EXPECT_FALSE(limit.near(939));
  EXPECT_EQ(asked, 0);
  EXPECT_FALSE(limit.near(950));
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(limit.near(1940));
  EXPECT_EQ(asked, 2);
}

TEST(TimeLimit, OfSlurmThatDoesNotAnswerStaysWhatItWas) {
  TimeLimit limit(60, 1000, [](double /*now*/) { return std::nullopt; });
  EXPECT_TRUE(limit.near(950));
}

TEST(TimeLimit, WithoutAnEndIsNeverNear) {
  TimeLimit limit(60, std::nullopt, {});
  EXPECT_FALSE(limit.near(1e12));
  EXPECT_FALSE(TimeLimit().near(1e12));
}

}  // namespace
}  // namespace rollcall::train
