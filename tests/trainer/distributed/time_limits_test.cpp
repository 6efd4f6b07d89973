// Upper bounds of all waits: the timeouts passed to the backends and the store, and decisions by a clock that the test
// controls. No time is measured.

#include <gtest/gtest.h>
#include <atomic>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "runtime/store/server.h"
#include "tests/support/multiproc.h"
#include "trainer/distributed/backends/backends.h"
#include "trainer/distributed/backends/c10d/engine_backend.h"
#include "trainer/distributed/membership/rank_query.h"
#include "trainer/distributed/process_group/store.h"
#include "trainer/distributed/watchdog/pending_collectives.h"
#include "trainer/distributed/watchdog/watchdog.h"

namespace rollcall::process_group {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;

TEST(TimeLimits, OfGlooIsTheTimeoutOfTheGroup) {
  const auto ranks = spawn(1, [](Rank& /*rank*/) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    const auto group = c10::make_intrusive<c10d::ProcessGroup>(store, 0, 1);
    kGloo.add(*group, store, {.timeout = milliseconds(12'345)});
    MULTIPROC_CHECK(group->getBackend(at::kCPU)->getBackendOptions()->timeout == milliseconds(12'345));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// Ends every operation at once, and keeps how long it might have taken.
class RecordingEngine final : public Engine {
 public:
  explicit RecordingEngine(std::vector<milliseconds>& asked) : asked_(asked) {}
  void shutdown() override {}
  void submit(Operation operation) override {
    asked_.push_back(operation.timeout);
    operation.done("");
  }
  void help_until(const std::function<bool()>& /*done*/) override {}
  void abort(const std::string& /*reason*/) override {}
  [[nodiscard]] bool has_failed() const override { return false; }

 private:
  std::vector<milliseconds>& asked_;
};

TEST(TimeLimits, OfEngineOperationsIsThatOfTheCallOrTheGroup) {
  std::vector<milliseconds> asked;
  const auto backend = c10::make_intrusive<EngineBackend>("recording", std::make_unique<RecordingEngine>(asked), 0, 1,
                                                          milliseconds(7'000));
  std::vector<at::Tensor> tensors{torch::ones({3})};
  backend->allreduce(tensors, {})->wait();
  c10d::AllreduceOptions longer;
  longer.timeout = milliseconds(9'000);
  backend->allreduce(tensors, longer)->wait();
  c10d::BroadcastOptions shorter;
  shorter.timeout = milliseconds(50);
  backend->broadcast(tensors, shorter)->wait();
  backend->barrier({})->wait();
  EXPECT_EQ(asked, (std::vector<milliseconds>{milliseconds(7'000), milliseconds(9'000), milliseconds(50),
                                              milliseconds(7'000)}));
}

TEST(TimeLimits, OfStoreRequestsIsTheRendezvousTimeout) {
  const auto ranks = spawn(1, [](Rank& /*rank*/) {
    rendezvous::Meeting meeting;
    const auto store = connect_store(meeting, 0, 1, milliseconds(23'000));
    MULTIPROC_CHECK(store.has_value() && (*store)->getTimeout() == milliseconds(23'000));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(TimeLimits, OfQueriesGrowsWithThePollInterval) {
  EXPECT_EQ(query_timeouts(milliseconds(100)),
            (QueryTimeouts{.one_silent = milliseconds(250), .several_silent = milliseconds(2'000)}));
  EXPECT_EQ(query_timeouts(milliseconds(1'000)),
            (QueryTimeouts{.one_silent = milliseconds(1'150), .several_silent = milliseconds(11'000)}));
}

TEST(TimeLimits, OfQueriesIsShortForOneSilentRankAndLongForSeveral) {
  const QueryTimeouts timeouts{.one_silent = milliseconds(1), .several_silent = milliseconds(2)};
  const auto time_to_wait_for = [&](std::vector<RankStatus::Presence> others) {
    std::vector<RankStatus> ranks(1);
    ranks[0].presence = RankStatus::Here;
    for (const RankStatus::Presence presence : others) {
      ranks.emplace_back().presence = presence;
    }
    return time_to_wait(ranks, timeouts).count();
  };
  using enum RankStatus::Presence;
  EXPECT_EQ(time_to_wait_for({}), 0);
  EXPECT_EQ(time_to_wait_for({Here, Left, Ended, GaveUp}), 0);
  EXPECT_EQ(time_to_wait_for({Here, Silent}), 1);
  EXPECT_EQ(time_to_wait_for({Here, Stopped}), 2) << "its process lives";
  EXPECT_EQ(time_to_wait_for({Silent, Silent}), 2);
  EXPECT_EQ(time_to_wait_for({Silent, Stopped}), 2);
}

/// A search on rank 0 of two, with one collective that began at second 0 of the test's own clock.
class PendingCollectivesTest : public testing::Test {
 protected:
  using Clock = WatchedCollective::Clock;

  PendingCollectivesTest()
      : watchdog_(std::make_shared<Watchdog>(
            c10::make_intrusive<c10d::HashStore>(),
            WatchdogOptions{
                .rank = 0,
                .world_size = 2,
                .query_timeouts = QueryTimeouts{.one_silent = milliseconds(0), .several_silent = milliseconds(0)}})),
        pending_(c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get())),
        collective_(WatchedCollective::of(
            pending_, watchdog_,
            {.number = 1, .operation = "all-reduce", .type = "float32", .sizes = "[1]", .details = "sum"}, zero_)) {
    search_.add(collective_);
  }
  ~PendingCollectivesTest() override { watchdog_->stop(); }

  [[nodiscard]] Clock::time_point at(milliseconds time) const { return zero_ + time; }
  void look(milliseconds time) { search_.look(at(time)); }
  void process_ended(milliseconds time) {
    search_.process_ended(
        1, [this](std::uint32_t) { return has_left_; }, at(time));
  }

  Clock::time_point zero_ = Clock::now();
  std::optional<bool> has_left_ = false;
  std::shared_ptr<Watchdog> watchdog_;
  PendingCollectives search_;
  c10::intrusive_ptr<c10::ivalue::Future> pending_;
  std::shared_ptr<WatchedCollective> collective_;
};

TEST_F(PendingCollectivesTest, FailsATenthOfASecondAfterAProcessEnded) {
  process_ended(milliseconds(5'000));
  look(milliseconds(5'099));
  EXPECT_FALSE(collective_->has_ended()) << "what it sent may still be on its way";
  look(milliseconds(5'100));
  EXPECT_TRUE(collective_->has_ended());
}

TEST_F(PendingCollectivesTest, FailsASecondAfterAProcessEndedIfTheStoreIsSilent) {
  has_left_ = std::nullopt;
  process_ended(milliseconds(5'000));
  look(milliseconds(5'999));
  EXPECT_FALSE(collective_->has_ended());
  look(milliseconds(6'000));
  EXPECT_TRUE(collective_->has_ended());
}

TEST_F(PendingCollectivesTest, DoNotFailWhenAPeerLeftCleanly) {
  has_left_ = true;
  process_ended(milliseconds(5'000));
  for (int second = 5; second < 100; ++second) {
    look(seconds(second));
  }
  EXPECT_FALSE(collective_->has_ended());
}

TEST_F(PendingCollectivesTest, FailASecondAfterTheAgentReportsLostRanks) {
  search_.ranks_are_lost(at(milliseconds(5'000)));
  search_.ranks_are_lost(at(milliseconds(5'900)));  // it is said again and again
  look(milliseconds(5'999));
  EXPECT_FALSE(collective_->has_ended()) << "the backend may tell, and then it is known who";
  look(milliseconds(6'000));
  ASSERT_TRUE(collective_->has_ended());
  EXPECT_NE(collective_->future()->tryRetrieveErrorMessage().find("the agent reported that ranks are lost"),
            std::string::npos);
}

TEST_F(PendingCollectivesTest, AgentReportDoesNotDelayTheFailureForAnEndedProcess) {
  process_ended(milliseconds(5'000));
  search_.ranks_are_lost(at(milliseconds(5'010)));
  look(milliseconds(5'100));
  EXPECT_TRUE(collective_->has_ended());
}

TEST_F(PendingCollectivesTest, EndedProcessFailsThemBeforeTheAgentReportDoes) {
  search_.ranks_are_lost(at(milliseconds(5'000)));
  process_ended(milliseconds(5'010));
  look(milliseconds(5'110));
  EXPECT_TRUE(collective_->has_ended());
}

TEST(MembershipTest, LearnsClosedConnectionsFromTheStoreServer) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Membership membership;
  membership.join(store, 1, 4);
  membership.listen();
  std::size_t known = 0;
  const std::atomic<bool> never = false;
  static_cast<c10d::Store&>(*store).set(store::closed_key(1), "3");
  EXPECT_EQ(membership.processes()->await_ended(known, std::chrono::minutes(2), never), std::vector<std::uint32_t>{3});
  EXPECT_TRUE(membership.processes()->has_ended(3));
  static_cast<c10d::Store&>(*store).set(store::closed_key(2), "2");
  EXPECT_EQ(membership.processes()->await_ended(known, std::chrono::minutes(2), never), std::vector<std::uint32_t>{2});
}

TEST(MembershipTest, KeepsTheFirstReasonToGiveUp) {
  Membership membership;
  EXPECT_EQ(membership.gave_up(), std::nullopt);
  membership.give_up("the disk is full");
  membership.give_up("a peer was lost");
  EXPECT_EQ(membership.gave_up(), "the disk is full");
}

}  // namespace
}  // namespace rollcall::process_group
