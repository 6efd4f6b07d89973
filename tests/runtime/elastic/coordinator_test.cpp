#include "runtime/elastic/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/elastic/member.h"

namespace rollcall::elastic {
namespace {

/// The outcome of a run of one node with two workers whose agent reports `causes`.
std::optional<Outcome> end_after(const std::vector<Cause>& causes) {
  Policy policy;
  policy.run_id = "run";
  policy.min_nodes = policy.max_nodes = 1;
  Coordinator coordinator(policy, [] { return std::string("nonce"); });
  const Clock::time_point now = Clock::now();
  Report join{.kind = Report::Kind::Join, .port = 4711};
  join.join_request = JoinRequest{"run", 1, 1, {}, Node{"here", "", 2, "worker"}};
  coordinator.handle_report(1, join, now);
  coordinator.handle_report(1, {.kind = Report::Kind::Failed, .generation = 1, .causes = causes}, now);
  coordinator.handle_report(1, {.kind = Report::Kind::Stopped, .generation = 1, .port = 4712}, now);
  std::optional<Outcome> outcome;
  for (const auto& [id, order] : coordinator.take_orders()) {
    outcome = order.kind == Order::Kind::End ? order.outcome : outcome;
  }
  return outcome;
}

TEST(Coordinator, KeepsOneCausePerExistingWorker) {
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

/// A run of two of at most three nodes.
class CoordinatorOfTwoNodes : public testing::Test {
 protected:
  CoordinatorOfTwoNodes() {
    join(1, "one");
    join(2, "two");
    coordinator_.tick(now_ + std::chrono::seconds(100));  // the last call is over
    (void)coordinator_.take_orders();
  }

  void join(MemberId id, const char* host) {
    Report report{.kind = Report::Kind::Join, .port = 4711};
    report.join_request = JoinRequest{"run", 1, 3, {}, Node{host, "", 1, "worker"}};
    coordinator_.handle_report(id, report, now_);
  }
  /// Whether the stop order for the first node reports lost workers; nothing without a stop order.
  [[nodiscard]] std::optional<bool> told() {
    std::optional<bool> lost;
    for (const auto& [id, order] : coordinator_.take_orders()) {
      lost = id == 1 && order.kind == Order::Kind::Stop ? order.lost : lost;
    }
    return lost;
  }

  static Policy policy() {
    Policy policy;
    policy.run_id = "run";
    policy.min_nodes = 1;
    policy.max_nodes = 3;
    return policy;
  }

  Coordinator coordinator_{policy(), [] { return std::string("nonce"); }};
  Clock::time_point now_ = Clock::now();
};

TEST_F(CoordinatorOfTwoNodes, ReportsNoLossWhenANodeJoinsUntilOneIsLost) {
  ASSERT_EQ(coordinator_.phase(), Coordinator::Phase::Running);
  join(3, "three");
  EXPECT_EQ(told(), false);
  coordinator_.lost(2, "is gone", true, now_);
  EXPECT_EQ(told(), true) << "meanwhile, one of those that are to let go is lost";
}

TEST_F(CoordinatorOfTwoNodes, ReportsNoLossWhenANodeLeaves) {
  coordinator_.handle_report(2, {.kind = Report::Kind::Leave}, now_);
  EXPECT_EQ(told(), false);
}

TEST_F(CoordinatorOfTwoNodes, ReportsLossWhenANodeIsSilent) {
  coordinator_.lost(2, "was silent", false, now_);
  EXPECT_EQ(told(), true);
}

TEST_F(CoordinatorOfTwoNodes, ReportsLossWhenAWorkerFails) {
  coordinator_.handle_report(2, {.kind = Report::Kind::Failed, .generation = 1, .causes = {{.exit_code = 1}}}, now_);
  EXPECT_EQ(told(), true);
}

TEST_F(CoordinatorOfTwoNodes, EndsTheRunWhenANodeIsLostRepeatedly) {
  bool ended = false;
  std::uint32_t generation = 1;
  const auto stop_all = [&](std::initializer_list<MemberId> members) {
    for (const MemberId id : members) {
      coordinator_.handle_report(id, {.kind = Report::Kind::Stopped, .generation = generation, .port = 4711}, now_);
    }
    generation += 1;
  };
  for (MemberId flapping = 3; flapping < 3 + policy().give_up_after && !ended; ++flapping) {
    join(flapping, "three");
    stop_all({1, 2});
    coordinator_.lost(flapping, "is gone", true, now_);
    stop_all({1, 2});
    for (const auto& [id, order] : coordinator_.take_orders()) {
      ended |= id == 1 && order.kind == Order::Kind::End;
    }
  }
  EXPECT_TRUE(ended);
}

TEST_F(CoordinatorOfTwoNodes, RefusesASecondNodeWithTheSameIdentity) {
  Report report{.kind = Report::Kind::Join, .port = 4711};
  report.join_request = JoinRequest{"run", 1, 3, {}, Node{"three", "10.0.0.3", 1, "worker", 5000}};
  coordinator_.handle_report(3, report, now_);
  (void)coordinator_.take_orders();
  coordinator_.handle_report(4, report, now_);
  std::vector<Order::Kind> told;
  for (const auto& [id, order] : coordinator_.take_orders()) {
    told.push_back(order.kind);
    EXPECT_EQ(id, 4U);
  }
  EXPECT_EQ(told, std::vector{Order::Kind::Refused});
}

TEST(Coordinator, SuccessorAcceptsANewerGenerationOfItsOwnRunOnly) {
  const Node own{"own", "10.0.0.2", 1, "worker", 5000};
  const Node other{"other", "10.0.0.3", 1, "worker", 5000};
  Generation known;
  known.number = 3;
  known.run = "run of these";
  known.world = {Node{"lost", "10.0.0.1", 1, "worker", 5000}, own, other};
  const auto number_after = [&](const std::string& run) {
    Policy policy;
    policy.run_id = "run";
    policy.max_nodes = 3;
    Coordinator coordinator(
        policy, [] { return std::string("nonce"); }, known, Clock::now());
    const auto join = [&](MemberId id, const Node& node, const Generation& last) {
      Report report{.kind = Report::Kind::Join, .port = 4711};
      report.join_request = JoinRequest{"run", 1, 3, {}, node, last};
      coordinator.handle_report(id, report, Clock::now());
    };
    join(1, own, known);
    Generation newer = known;
    newer.number = 9;
    newer.run = run;
    newer.world = {Node{"lost", "10.0.0.1", 1, "worker", 5000}, own, other, Node{"more", "", 1, "worker"}};
    join(2, other, newer);
    return coordinator.generation().number;
  };
  EXPECT_EQ(number_after("run of these"), 9U);
  EXPECT_EQ(number_after("another"), 3U);
}

TEST(Coordinator, EveryGenerationContainsItsOwnAgentWhateverRanksOthersRequest) {
  Policy policy;
  policy.run_id = "run";
  policy.min_nodes = policy.max_nodes = 2;
  policy.max_restarts = 1;
  Coordinator coordinator(policy, [] { return std::string("nonce"); });
  const Clock::time_point now = Clock::now();
  const auto join = [&](MemberId id, std::optional<std::uint32_t> rank) {
    Report report{.kind = Report::Kind::Join, .port = 4711};
    report.join_request = JoinRequest{"run", 2, 2, rank, Node{std::to_string(id), "", 1, "worker"}};
    coordinator.handle_report(id, report, now);
  };
  join(1, {});
  join(2, 0);
  join(3, 1);  // waits
  coordinator.handle_report(2, {.kind = Report::Kind::Failed, .generation = 1, .causes = {{.exit_code = 1}}}, now);
  (void)coordinator.take_orders();
  for (const MemberId id : {MemberId{1}, MemberId{2}}) {
    coordinator.handle_report(id, {.kind = Report::Kind::Stopped, .generation = 1, .port = 4711}, now);
  }
  std::vector<std::string> hosts;
  for (const auto& [id, order] : coordinator.take_orders()) {
    if (id == 1 && order.kind == Order::Kind::Begin) {
      hosts.push_back(order.generation.world.at(order.generation.coordinator).host);
    }
  }
  EXPECT_EQ(hosts, std::vector<std::string>{"1"});
}

/// A member in its first generation, of which three nodes are.
Member running_member() {
  Member member;
  Order begin{.kind = Order::Kind::Begin};
  begin.generation.number = 1;
  begin.generation.group_rank = 2;
  begin.generation.world = {Node{"one", "", 1, "worker"}, Node{"two", "", 1, "worker"}, Node{"three", "", 1, "worker"}};
  member.ordered(begin);
  (void)member.take_actions();
  return member;
}

/// Its actions of this kind.
std::vector<Action> actions(Member& member, Action::Kind kind) {
  std::vector<Action> found = member.take_actions();
  std::erase_if(found, [kind](const Action& action) { return action.kind != kind; });
  return found;
}

TEST(Member, ReportsALossToItsWorkersAfterAnOrderlyStop) {
  Member member = running_member();
  Order stop{.kind = Order::Kind::Stop};
  stop.generation.number = 1;
  member.ordered(stop);
  const std::vector<Action> stopped = actions(member, Action::Kind::Stop);
  ASSERT_EQ(stopped.size(), 1U);
  EXPECT_FALSE(stopped[0].lost);
  stop.lost = true;
  member.ordered(stop);
  EXPECT_EQ(actions(member, Action::Kind::ReportLoss).size(), 1U);
}

TEST(Member, SilentCoordinatorIsALossAndAnEndedOneIsNot) {
  for (const bool silent : {false, true}) {
    Member member = running_member();
    member.coordinator_lost("is not heard", silent);
    const std::vector<Action> stopped = actions(member, Action::Kind::Stop);
    ASSERT_EQ(stopped.size(), 1U);
    EXPECT_EQ(stopped[0].lost, silent) << "told to end, its workers save, and nobody is to be disturbed in that";
  }
}

TEST(Member, StopsItsWorkersWithLossWhenOneFails) {
  Member member = running_member();
  member.worker_failed({.exit_code = 1});
  const std::vector<Action> stopped = actions(member, Action::Kind::Stop);
  ASSERT_EQ(stopped.size(), 1U);
  EXPECT_TRUE(stopped[0].lost);
}

}  // namespace
}  // namespace rollcall::elastic
