#include "trainer/train/data_pipeline.h"

#include <gtest/gtest.h>

namespace rollcall::train {
namespace {

TEST(NumberOfWorkers, AutoTakesTheCpusThatDoNotComputeAndAtLeastOne) {
  EXPECT_EQ(number_of_workers(std::nullopt, 16, 8), 8);
  EXPECT_EQ(number_of_workers(std::nullopt, 8, 1), 7);
  EXPECT_EQ(number_of_workers(std::nullopt, 2, 2), 1);
  EXPECT_EQ(number_of_workers(std::nullopt, 1, 4), 1);
}

TEST(NumberOfWorkers, IsTheNumberAskedForOtherwise) {
  EXPECT_EQ(number_of_workers(0, 16, 1), 0);
  EXPECT_EQ(number_of_workers(24, 2, 1), 24);
}

}  // namespace
}  // namespace rollcall::train
