#include "trainer/optim/schedule.h"

#include <gtest/gtest.h>

namespace rollcall::optim {
namespace {

ScheduleOptions typical(ScheduleKind kind) {
  return {.learning_rate = 0.8,
          .kind = kind,
          .warmup_steps = 10,
          .total_steps = 110,
          .steps_per_drop = 30,
          .drop_factor = 0.1};
}

TEST(Schedule, WarmUpIsLinearAndReachesTheValueAtItsLastStep) {
  for (const ScheduleKind kind : {ScheduleKind::None, ScheduleKind::Cosine, ScheduleKind::Step}) {
    for (std::int64_t step = 0; step < 10; ++step) {
      EXPECT_DOUBLE_EQ(learning_rate(typical(kind), step), 0.08 * static_cast<double>(step + 1));
    }
    EXPECT_DOUBLE_EQ(learning_rate(typical(kind), 10), 0.8);
  }
}

TEST(Schedule, FirstStepHasTheFullValueWithoutWarmUp) {
  EXPECT_DOUBLE_EQ(learning_rate({.learning_rate = 0.8}, 0), 0.8);
}

TEST(Schedule, NoneStaysAtItsValue) { EXPECT_DOUBLE_EQ(learning_rate(typical(ScheduleKind::None), 1'000'000), 0.8); }

TEST(Schedule, CosineIsHalfWayInTheMiddleAndZeroAtAndAfterTheEnd) {
  const ScheduleOptions options = typical(ScheduleKind::Cosine);
  EXPECT_NEAR(learning_rate(options, 60), 0.4, 1e-12);
  EXPECT_NEAR(learning_rate(options, 35), 0.8 * 0.8535533905932737, 1e-12);
  EXPECT_NEAR(learning_rate(options, 110), 0, 1e-12);
  EXPECT_NEAR(learning_rate(options, 500), 0, 1e-12);
  for (std::int64_t step = 10; step < 110; ++step) {
    EXPECT_LT(learning_rate(options, step + 1), learning_rate(options, step)) << step;
  }
}

TEST(Schedule, StepDropsEveryIntervalCountedFromTheBeginningOfTraining) {
  const ScheduleOptions options = typical(ScheduleKind::Step);
  EXPECT_DOUBLE_EQ(learning_rate(options, 29), 0.8);
  EXPECT_NEAR(learning_rate(options, 30), 0.08, 1e-15);
  EXPECT_NEAR(learning_rate(options, 59), 0.08, 1e-15);
  EXPECT_NEAR(learning_rate(options, 60), 0.008, 1e-15);
}

TEST(Schedule, LinearAndPolynomialEndAtTheirFraction) {
  ScheduleOptions options = typical(ScheduleKind::Linear);
  options.end_factor = 0.25;
  EXPECT_NEAR(learning_rate(options, 60), 0.8 * 0.625, 1e-12);
  EXPECT_NEAR(learning_rate(options, 110), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate(options, 500), 0.2, 1e-12);
  options.kind = ScheduleKind::Polynomial;
  options.power = 2;
  EXPECT_NEAR(learning_rate(options, 60), 0.8 * (0.25 + 0.75 * 0.25), 1e-12);
  options.kind = ScheduleKind::Cosine;
  EXPECT_NEAR(learning_rate(options, 110), 0.2, 1e-12);
}

TEST(Schedule, OneCycleRisesAndFallsAlongCosines) {
  ScheduleOptions options = typical(ScheduleKind::OneCycle);
  options.warmup_start_factor = 0.25;
  options.end_factor = 0.125;
  EXPECT_NEAR(learning_rate(options, 0), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate(options, 3), 0.2 + 0.6 * 0.25, 1e-12);
  EXPECT_NEAR(learning_rate(options, 9), 0.8, 1e-12);
  EXPECT_NEAR(learning_rate(options, 59), 0.1 + 0.7 * 0.5, 1e-12);
  EXPECT_NEAR(learning_rate(options, 109), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate(options, 500), 0.1, 1e-12);
  options.warmup_steps = 0;
  EXPECT_NEAR(learning_rate(options, 0), 0.8, 1e-12);
}

TEST(Schedule, MilestonesDropAtTheirStepAndLater) {
  ScheduleOptions options = typical(ScheduleKind::Milestones);
  options.milestones = {30, 80};
  EXPECT_DOUBLE_EQ(learning_rate(options, 29), 0.8);
  EXPECT_NEAR(learning_rate(options, 30), 0.08, 1e-15);
  EXPECT_NEAR(learning_rate(options, 79), 0.08, 1e-15);
  EXPECT_NEAR(learning_rate(options, 80), 0.008, 1e-15);
}

TEST(Schedule, WarmUpStartsAtItsFraction) {
  ScheduleOptions options = typical(ScheduleKind::None);
  options.warmup_start_factor = 0.5;
  EXPECT_NEAR(learning_rate(options, 0), 0.4 + 0.04, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(options, 9), 0.8);
}

TEST(Schedule, ParsesKnownNamesAndRejectsOthers) {
  EXPECT_EQ(*parse_schedule("none"), ScheduleKind::None);
  EXPECT_EQ(*parse_schedule("cosine"), ScheduleKind::Cosine);
  EXPECT_EQ(*parse_schedule("step"), ScheduleKind::Step);
  EXPECT_EQ(*parse_schedule("linear"), ScheduleKind::Linear);
  EXPECT_EQ(*parse_schedule("polynomial"), ScheduleKind::Polynomial);
  EXPECT_EQ(*parse_schedule("one-cycle"), ScheduleKind::OneCycle);
  EXPECT_EQ(*parse_schedule("milestones"), ScheduleKind::Milestones);
  EXPECT_EQ(parse_schedule("cosin").error().setting, "--lr-schedule");
}

}  // namespace
}  // namespace rollcall::optim
