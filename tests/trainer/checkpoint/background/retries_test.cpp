#include "trainer/checkpoint/background/saver.h"

#include <gmock/gmock.h>

namespace rollcall::checkpoint::background {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Error no_space() { return fail("checkpoint", "", "disk full", "", ErrorKind::InputOutput); }

/// A save that fails `failures` times, and the pauses that were asked for; the last of them is refused from `most` on.
struct Tried {
  Tried(int failures, const RetryPolicy& policy, std::size_t most = 99) {
    outcome = write_with_retries(
        5, policy, [&] { return ++tries <= failures ? Result<void>(no_space()) : Result<void>(); },
        [&](std::chrono::duration<double> length) {
          pauses.push_back(length.count());
          return pauses.size() <= most;
        });
  }
  SaveOutcome outcome;
  int tries = 0;
  std::vector<double> pauses;
};

TEST(Retries, DoubleThePauseEachTime) {
  const Tried tried(3, {.retries = 3, .first_pause = std::chrono::duration<double>(0.5)});
  EXPECT_TRUE(tried.outcome.written);
  EXPECT_EQ(tried.outcome.step, 5);
  EXPECT_EQ(tried.tries, 4);
  EXPECT_THAT(tried.pauses, ElementsAre(0.5, 1, 2));
  EXPECT_THAT(tried.outcome.failures, ElementsAre("disk full", "disk full", "disk full"));
}

TEST(Retries, EndWithTheLastErrorAtTheLimit) {
  const Tried tried(9, {.retries = 2});
  EXPECT_EQ(tried.outcome.written.error().reason, "disk full");
  EXPECT_EQ(tried.tries, 3);
  EXPECT_THAT(tried.pauses, ElementsAre(1, 2));
  EXPECT_THAT(tried.outcome.failures, ElementsAre("disk full", "disk full"));
}

TEST(Retries, StopAtALimitOfZeroOrWhenThePauseIsRefused) {
  const Tried none(9, {.retries = 0});
  EXPECT_EQ(none.tries, 1);
  EXPECT_THAT(none.pauses, IsEmpty());
  const Tried no_time(9, {.retries = 5}, 1);
  EXPECT_EQ(no_time.tries, 2);
  EXPECT_FALSE(no_time.outcome.written);
}

}  // namespace
}  // namespace rollcall::checkpoint::background
