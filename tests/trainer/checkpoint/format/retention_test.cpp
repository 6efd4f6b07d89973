#include "trainer/checkpoint/format/retention.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace rollcall::checkpoint::format {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Retention, KeepsTheNewest) {
  EXPECT_THAT(superfluous_steps({30, 10, 40, 20}, {.keep_last = 3}), ElementsAre(10));
  EXPECT_THAT(superfluous_steps({10, 20}, {.keep_last = 3}), IsEmpty());
}

TEST(Retention, NeverRemovesTheNewestStep) {
  EXPECT_THAT(superfluous_steps({10, 20}, {.keep_last = 0}), ElementsAre(10));
  EXPECT_THAT(superfluous_steps({20}, {.keep_last = -5}), IsEmpty());
  EXPECT_THAT(superfluous_steps({}, {}), IsEmpty());
}

TEST(Retention, KeepsTheBest) {
  EXPECT_THAT(superfluous_steps({10, 20, 30, 40, 50}, {.keep_last = 1, .best_steps = {20, 40, 7}}),
              ElementsAre(10, 30));
}

TEST(Retention, KeepBestCountsOnlyStepsWithACheckpoint) {
  const Retention retention{.keep_last = 1, .best_steps = {60, 30, 60, 10, 20}, .keep_best = 2};
  EXPECT_THAT(superfluous_steps({10, 20, 30, 40, 50}, retention), ElementsAre(20, 40));
  EXPECT_THAT(best_of({10, 20, 30, 40, 50}, retention), ElementsAre(30, 10));
  EXPECT_THAT(best_of({10, 60}, retention), ElementsAre(60, 10));
}

TEST(Retention, CountsARevalidatedStepOnceAmongTheBest) {
  std::vector<Best> best{{10, 0.5}, {20, 0.4}};
  EXPECT_TRUE(note_validation(best, {10, 0.5}, 2));
  ASSERT_EQ(best.size(), 2U);
  EXPECT_EQ(best[0].step, 10);
  EXPECT_EQ(best[1].step, 20);
}

TEST(Retention, KeepEveryKeepsTheFirstStepOfEachInterval) {
  EXPECT_THAT(superfluous_steps({5, 7, 9, 12, 19, 25, 26}, {.keep_last = 1, .keep_every = 10}), ElementsAre(7, 9, 19));
}

// A run that saves every 3 steps ends with the same files whether it tidies after each save or once at the end.
TEST(Retention, TidyingPerSaveEqualsTidyingAtTheEnd) {
  const Retention retention{.keep_last = 2, .keep_every = 20, .best_steps = {33}};
  std::vector<std::int64_t> all;
  std::vector<std::int64_t> kept;
  const auto remove = [&](std::vector<std::int64_t>& steps) {
    for (const std::int64_t step : superfluous_steps(steps, retention)) {
      steps.erase(std::find(steps.begin(), steps.end(), step));
    }
  };
  for (std::int64_t step = 3; step <= 99; step += 3) {
    all.push_back(step);
    kept.push_back(step);
    remove(kept);
  }
  remove(all);
  EXPECT_EQ(kept, all);
  EXPECT_THAT(kept, ElementsAre(3, 21, 33, 42, 60, 81, 96, 99));
}

}  // namespace
}  // namespace rollcall::checkpoint::format
