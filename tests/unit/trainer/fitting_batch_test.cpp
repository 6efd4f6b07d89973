#include "trainer/train/step/fitting_batch.h"

#include <gtest/gtest.h>

namespace rollcall::train {
namespace {

TEST(FittingBatch, IsOnTheLineThroughTwoPasses) {
  const MeasuredPass small{.images = 4, .peak = 1400};  // 1000, and 100 an image
  const MeasuredPass large{.images = 8, .peak = 1800};
  EXPECT_EQ(images_within(3000, small, large), 20);
  EXPECT_EQ(images_within(3099, small, large), 20);
  EXPECT_EQ(images_within(1150, small, large), 1);
  EXPECT_EQ(images_within(900, small, large), 0) << "the model alone is more";
}

TEST(FittingBatch, IsNotKnownWhereImagesTakeNothing) {
  EXPECT_EQ(images_within(3000, {.images = 4, .peak = 1400}, {.images = 8, .peak = 1400}), std::nullopt);
  EXPECT_EQ(images_within(3000, {.images = 4, .peak = 1400}, {.images = 8, .peak = 1300}), std::nullopt);
  EXPECT_EQ(images_within(3000, {.images = 4, .peak = 1400}, {.images = 4, .peak = 1800}), std::nullopt);
}

}  // namespace
}  // namespace rollcall::train
