// The order in which ranks exit at the end of a run.

#include <gtest/gtest.h>
#include <csignal>
#include <fstream>
#include <thread>

#include "tests/support/multiproc.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;

JobContext world_of(Rank& rank) {
  JobContext context;
  context.rank = rank.rank;
  context.world_size = rank.world_size;
  context.store = context.group_store = c10::make_intrusive<c10d::FileStore>(rank.folder / "store", -1);
  const auto made = process_group::make_process_group(context.store, rank.rank, rank.world_size, context.group_options);
  context.process_group = made ? made->process_group : throw std::runtime_error(made.error().message());
  return context;
}

TEST(Shutdown, RankZeroLeavesLast) {
  const auto ranks = spawn(3, [](Rank& rank) {
    JobContext context = world_of(rank);
    MULTIPROC_CHECK(process_group::barrier(context.process_group).has_value());
    if (rank.rank == 2) {  // so late that another order would show
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    std::ofstream(rank.folder / ("leaves" + std::to_string(rank.rank)));
    let_others_leave_first(context);
    MULTIPROC_CHECK((context.process_group != nullptr) == (rank.rank == 0));
    MULTIPROC_CHECK(rank.rank != 0 || std::filesystem::exists(rank.folder / "leaves1"));
    MULTIPROC_CHECK(rank.rank != 0 || std::filesystem::exists(rank.folder / "leaves2"));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Shutdown, DoesNotWaitForADeadRank) {
  testing_support::Ranks running(3, [](Rank& rank) {
    JobContext context = world_of(rank);
    MULTIPROC_CHECK(process_group::barrier(context.process_group).has_value());
    if (rank.rank == 1) {
      raise(SIGKILL);
    }
    const auto begin = std::chrono::steady_clock::now();
    let_others_leave_first(context);
    MULTIPROC_CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(8));  // the limit is 10
  });
  std::vector<testing_support::RankResult> ranks = running.wait();
  EXPECT_EQ(ranks.at(1).signal, SIGKILL);
  ranks.erase(ranks.begin() + 1);
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Shutdown, SingleRankLeavesAtOnce) {
  JobContext context;
  let_others_leave_first(context);
  EXPECT_EQ(context.store, nullptr);
}

}  // namespace
}  // namespace rollcall::train
