#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "trainer/metrics/human_numbers.h"
#include "trainer/metrics/running_average.h"
#include "trainer/metrics/throughput.h"

namespace rollcall::metrics {
namespace {

TEST(Duration, IsPrintedInItsTwoLargestUnits) {
  const std::pair<double, const char*> cases[] = {{0, "0 s"},
                                                  {45, "45 s"},
                                                  {59.4, "59 s"},
                                                  {59.7, "1 min 00 s"},
                                                  {185, "3 min 05 s"},
                                                  {3599.6, "1 h 00 min"},
                                                  {3720, "1 h 02 min"},
                                                  {86399, "1 d 00 h"},
                                                  {183600, "2 d 03 h"},
                                                  {-3, "0 s"},
                                                  {std::numeric_limits<double>::infinity(), "?"},
                                                  {std::nan(""), "?"}};
  for (const auto& [seconds, text] : cases) {
    EXPECT_EQ(human_duration(seconds), text) << seconds;
  }
}

TEST(Duration, RemainingIsUnknownWithoutARate) {
  EXPECT_EQ(remaining_seconds(100, std::nullopt), std::nullopt);
  EXPECT_EQ(remaining_seconds(100, 0.0), std::nullopt);
  EXPECT_EQ(remaining_seconds(100, 50.0), 2.0);
  EXPECT_EQ(remaining_seconds(-5, 50.0), 0.0);
}

TEST(RunningAverage, WeighsEverySampleEqually) {
  RunningAverage average;
  average += {.loss_sum = 6.0, .correct_top1 = 3, .correct_top5 = 3, .samples = 3};
  average += {.loss_sum = 4.0, .correct_top1 = 0, .correct_top5 = 1, .samples = 1};
  EXPECT_DOUBLE_EQ(average.loss(), 2.5);
  EXPECT_DOUBLE_EQ(average.top1(), 0.75);
  EXPECT_DOUBLE_EQ(average.top5(), 1.0);
}

TEST(RunningAverage, IsZeroWhenEmpty) {
  EXPECT_EQ(RunningAverage{}.loss(), 0);
  EXPECT_EQ(RunningAverage{}.top1(), 0);
}

TEST(RunningAverage, CountsStayExactWhereDoublesWouldNot) {
  RunningAverage average{.loss_sum = 0, .correct_top1 = (std::int64_t{1} << 53), .correct_top5 = 0, .samples = 1};
  average += {.loss_sum = 0, .correct_top1 = 1, .correct_top5 = 0, .samples = 0};
  EXPECT_EQ(average.correct_top1, (std::int64_t{1} << 53) + 1);
}

TEST(Throughput, ExcludesTheFirstStep) {
  Throughput throughput;
  EXPECT_EQ(throughput.images_per_second(), std::nullopt);
  throughput.step_done(10.0, 1'000'000);
  EXPECT_EQ(throughput.images_per_second(), std::nullopt);
  throughput.step_done(12.0, 64);
  EXPECT_EQ(throughput.images_per_second(), 32.0);
}

TEST(Throughput, CoversOnlyItsWindow) {
  Throughput throughput(2);
  throughput.step_done(0, 1);
  throughput.step_done(100, 1);  // a slow one
  throughput.step_done(101, 10);
  throughput.step_done(102, 10);
  EXPECT_EQ(throughput.images_per_second(), 10.0);
}

TEST(Throughput, RestartExcludesAPause) {
  Throughput throughput;
  throughput.step_done(0, 8);
  throughput.step_done(1, 8);
  throughput.restart();
  throughput.step_done(500, 8);
  throughput.step_done(501, 8);
  EXPECT_EQ(throughput.images_per_second(), 8.0);
}

TEST(Throughput, AStoppedClockGivesNoRate) {
  Throughput throughput;
  throughput.step_done(1, 8);
  throughput.step_done(1, 8);
  EXPECT_EQ(throughput.images_per_second(), std::nullopt);
}

}  // namespace
}  // namespace rollcall::metrics
