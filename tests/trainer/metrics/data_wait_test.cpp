#include "trainer/metrics/throughput.h"

#include <gtest/gtest.h>

namespace rollcall::metrics {
namespace {

TEST(DataWaitTime, IsAFractionOfTheSumOfAllSteps) {
  DataWait sum;
  EXPECT_EQ(sum.fraction(), 0);
  EXPECT_EQ(sum.utilisation(), 0);
  sum += {.waited = 1, .elapsed = 4, .loading = 6, .workers = 2};
  sum += {.waited = 0, .elapsed = 4, .loading = 2, .workers = 2};
  EXPECT_DOUBLE_EQ(sum.fraction(), 0.125);
  EXPECT_DOUBLE_EQ(sum.utilisation(), 0.5);
}

TEST(DataWaitTime, IsReportedWithAdvice) {
  const auto told = [](double waited, double loading, int workers, bool cpus_left) {
    return input_bound_advice({.waited = waited, .elapsed = 100, .loading = loading, .workers = workers}, cpus_left);
  };
  EXPECT_EQ(told(4.9, 100, 1, true), "");
  EXPECT_EQ(told(23, 0, 0, true), "input-bound: 23 % of the time waited for data; try --train-num-workers=auto");
  EXPECT_EQ(told(23, 390, 4, true),
            "input-bound: 23 % of the time waited for data; try --train-num-workers=8, or packing the images with "
            "rollcall-pack --repack");
  EXPECT_EQ(told(23, 390, 4, false),
            "input-bound: 23 % of the time waited for data; try raising --cpus-per-task, or packing "
            "the images with rollcall-pack --repack");
  EXPECT_EQ(
      told(23, 100, 4, true),
      "input-bound: 23 % of the time waited for data; try raising --prefetch, or using faster storage: the workers "
      "themselves waited");
  EXPECT_EQ(input_bound_advice({.waited = 0.5, .elapsed = 1, .loading = 1, .workers = 1}, true), "");  // too short
}

}  // namespace
}  // namespace rollcall::metrics
