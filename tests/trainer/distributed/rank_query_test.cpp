// Ranks that query each other's progress while some are killed, stopped or gone. Timeouts of an hour prove that a
// result does not come from a timeout: the test would not end.

#include <gtest/gtest.h>
#include <fstream>

#include "tests/support/multiproc.h"
#include "trainer/distributed/membership/membership.h"
#include "trainer/distributed/membership/rank_query.h"

namespace rollcall::process_group {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::Ranks;
using testing_support::report;
using testing_support::spawn;

constexpr std::chrono::hours kHour{1};
constexpr QueryTimeouts kWaitsForAll{.one_silent = kHour, .several_silent = kHour};
constexpr QueryTimeouts kWaitsForTheLiving{.one_silent = std::chrono::milliseconds(0), .several_silent = kHour};

c10::intrusive_ptr<c10d::Store> store_in(const std::filesystem::path& folder) {
  return c10::make_intrusive<c10d::FileStore>(folder / "roll", -1);
}

/// Returns once all ranks have called it with this name.
void meet(Rank& rank, c10d::Store& store, const std::string& name) {
  store.add(name, 1);
  while (store.add(name, 0) < rank.world_size) {
    usleep(1000);
  }
}

/// A rank that watches its host peers, as all others do when the constructor returns.
struct Member {
  explicit Member(Rank& rank) : store(store_in(rank.folder)) {
    publish_process(*store, rank.rank);
    meet(rank, *store, "published");
    watch_host_peers(*store, rank.rank, *peers);
    meet(rank, *store, "watching");
  }

  c10::intrusive_ptr<c10d::Store> store;
  std::shared_ptr<ProcessWatch> peers = std::make_shared<ProcessWatch>();
};

const RankProgress kInTheFirst{.issued = 1, .ended = 0, .last = "all-reduce 1"};

TEST(RankQuery, NamesAKilledRankBeforeAnyTimeout) {
  const std::vector<RankResult> ranks = spawn(3, [](Rank& rank) {
    const Member member(rank);
    if (rank.rank == 2) {
      raise(SIGKILL);
    }
    const RankQuery rank_query(member.store, member.peers, rank.rank, 3);
    MULTIPROC_CHECK(rank_query.ask(1, kInTheFirst, rank.rank == 0, kWaitsForAll) ==
                    "rank 2 was lost (its process ended)");
  });
  EXPECT_TRUE(all_succeeded({ranks[0], ranks[1]})) << report(ranks);
}

TEST(RankQuery, ReportsAKilledRankToOtherHostsThroughItsHostPeers) {
  const std::vector<RankResult> ranks = spawn(3, [](Rank& rank) {
    const Member member(rank);
    if (rank.rank == 2) {
      raise(SIGKILL);
    }
    const auto peers = rank.rank == 0 ? std::make_shared<ProcessWatch>() : member.peers;
    const RankQuery rank_query(member.store, peers, rank.rank, 3);
    MULTIPROC_CHECK(rank_query.ask(1, kInTheFirst, true, kWaitsForAll) == "rank 2 was lost (its process ended)");
  });
  EXPECT_TRUE(all_succeeded({ranks[0], ranks[1]})) << report(ranks);
}

TEST(RankQuery, WaitsForAStoppedRank) {
  Ranks running(2, [](Rank& rank) {
    const Member member(rank);
    const RankQuery rank_query(member.store, member.peers, rank.rank, 2);
    if (rank.rank == 1) {
      raise(SIGSTOP);
      std::ofstream(rank.folder / "resumed");
      rank_query.answer(RankProgress{});
      return;
    }
    MULTIPROC_CHECK(rank_query.ask(1, kInTheFirst, true, kWaitsForTheLiving) ==
                    "rank 1 has not arrived: it has not begun a collective yet");
  });
  const RankQuery seen(store_in(running.folder()), nullptr, 0, 2);
  while (!seen.is_asked()) {
    usleep(1000);
  }
  while (!std::filesystem::exists(running.folder() / "resumed")) {  // it may stop only after the first of these
    running.signal(1, SIGCONT);
    usleep(1000);
  }
  const std::vector<RankResult> ranks = running.wait();
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(RankQuery, DistinguishesAStoppedRankFromALostOne) {
  Ranks running(2, [](Rank& rank) {
    const Member member(rank);
    if (rank.rank == 1) {
      raise(SIGSTOP);
    }
    const RankQuery rank_query(member.store, member.peers, rank.rank, 2);
    const RankQuery stranger(member.store, std::make_shared<ProcessWatch>(), rank.rank, 2);
    const QueryTimeouts none{};
    const std::string alive = "rank 1 does not respond, but its process is alive: it is stopped or gets no CPU time";
    MULTIPROC_CHECK(stranger.ask(1, kInTheFirst, true, none) == "rank 1 does not respond: it is stopped or lost");
    MULTIPROC_CHECK(rank_query.ask(1, kInTheFirst, true, none) == alive);
    MULTIPROC_CHECK(stranger.ask(1, kInTheFirst, true, none) == alive);
  });
  const std::vector<RankResult> ranks = running.wait_for({0});
  EXPECT_TRUE(ranks[0].succeeded()) << report(ranks);
}

/// Rank 1 does `last` and ends; what rank 0 then hears of it.
std::string report_after_the_end(const std::function<void(const RankQuery&)>& last) {
  const std::vector<RankResult> ranks = spawn(2, [&](Rank& rank) {
    const Member member(rank);
    const RankQuery rank_query(member.store, member.peers, rank.rank, 2);
    if (rank.rank == 1) {
      last(rank_query);
      return;
    }
    std::size_t known = 0;
    const std::atomic<bool> never = false;
    while (member.peers->await_ended(known, kHour, never).empty()) {
    }
    throw std::runtime_error(rank_query.ask(1, kInTheFirst, true, kWaitsForAll));
  });
  return ranks[0].message;
}

TEST(Membership, SaysWhetherTheStepIsDone) {
  Membership membership;
  EXPECT_EQ(membership.step_text(), "");
  membership.begin_step(10);
  EXPECT_EQ(membership.step_text(), "in step 10");
  membership.end_step(10);
  EXPECT_EQ(membership.step_text(), "after step 10");
}

TEST(RankQuery, ARankThatAnsweredOrLeftBeforeItEndedIsNotLost) {
  EXPECT_EQ(report_after_the_end([](const RankQuery& rank_query) { rank_query.answer(kInTheFirst); }),
            "all ranks have arrived");
  EXPECT_EQ(report_after_the_end([](const RankQuery& rank_query) { rank_query.leave(RankProgress{}); }),
            "rank 1 has left the group");
  EXPECT_EQ(report_after_the_end([](const RankQuery&) {}), "rank 1 was lost (its process ended)");
}

}  // namespace
}  // namespace rollcall::process_group
