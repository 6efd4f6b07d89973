#include "runtime/elastic/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace rollcall::elastic {
namespace {

/// The end of a run of one node of two workers, of whom its agent says `causes`.
std::optional<Outcome> end_after(const std::vector<Cause>& causes) {
  Policy policy;
  policy.run_id = "run";
  policy.min_nodes = policy.max_nodes = 1;
  Coordinator coordinator(policy, [] { return std::string("nonce"); });
  const Clock::time_point now = Clock::now();
  Report join{.kind = Report::Kind::Join, .port = 4711};
  join.newcomer = Newcomer{"run", 1, 1, {}, Node{"here", "", 2, "worker"}};
  coordinator.heard(1, join, now);
  coordinator.heard(1, {.kind = Report::Kind::Failed, .generation = 1, .causes = causes}, now);
  coordinator.heard(1, {.kind = Report::Kind::Stopped, .generation = 1, .port = 4712}, now);
  std::optional<Outcome> outcome;
  for (const auto& [id, order] : coordinator.take_orders()) {
    outcome = order.kind == Order::Kind::End ? order.outcome : outcome;
  }
  return outcome;
}

TEST(Coordinator, KeepsOneCauseOfEachWorkerThatTheNodeHas) {
  std::vector<Cause> causes{{.local_rank = 1, .pid = 1, .exit_code = 3, .message = "early", .age_nanoseconds = 5}};
  for (std::uint32_t i = 0; i < 10'000; ++i) {  // as no agent says it
    causes.push_back({.group_rank = i, .local_rank = 2 + i, .pid = i, .exit_code = 4, .age_nanoseconds = 1'000'000});
  }
  causes.push_back({.group_rank = 7, .local_rank = 1, .pid = 2, .exit_code = 5, .message = std::string(1 << 20, 'x')});
  const std::optional<Outcome> outcome = end_after(causes);
  ASSERT_TRUE(outcome && outcome->cause);
  EXPECT_EQ(outcome->exit_code, 5) << "the latest word on worker 1";
  EXPECT_EQ(outcome->cause->group_rank, 0U);
  EXPECT_EQ(outcome->cause->message.size(), kLongestMessage);
}

}  // namespace
}  // namespace rollcall::elastic
