// In which order ranks end a run.

#include <gtest/gtest.h>
#include <csignal>
#include <fstream>
#include <thread>

#include "tests/support/multiproc.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/world.h"

namespace rollcall::train {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;

World world_of(Rank& rank) {
  World world;
  world.rank = rank.rank;
  world.world_size = rank.world_size;
  world.store = world.group_store = c10::make_intrusive<c10d::FileStore>(rank.folder / "store", -1);
  const auto made = process_group::make_process_group(world.store, rank.rank, rank.world_size, world.group_options);
  world.process_group = made ? made->process_group : throw std::runtime_error(made.error().message());
  return world;
}

TEST(Shutdown, RankZeroLeavesLast) {
  const auto ranks = spawn(3, [](Rank& rank) {
    World world = world_of(rank);
    MULTIPROC_CHECK(process_group::barrier(world.process_group).has_value());
    if (rank.rank == 2) {  // so late that another order would show
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    std::ofstream(rank.folder / ("leaves" + std::to_string(rank.rank)));
    let_others_leave_first(world);
    MULTIPROC_CHECK((world.process_group != nullptr) == (rank.rank == 0));
    MULTIPROC_CHECK(rank.rank != 0 || std::filesystem::exists(rank.folder / "leaves1"));
    MULTIPROC_CHECK(rank.rank != 0 || std::filesystem::exists(rank.folder / "leaves2"));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Shutdown, NobodyWaitsForARankThatDied) {
  testing_support::Ranks running(3, [](Rank& rank) {
    World world = world_of(rank);
    MULTIPROC_CHECK(process_group::barrier(world.process_group).has_value());
    if (rank.rank == 1) {
      raise(SIGKILL);
    }
    const auto begin = std::chrono::steady_clock::now();
    let_others_leave_first(world);
    MULTIPROC_CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(8));  // the limit is 10
  });
  std::vector<testing_support::RankResult> ranks = running.wait();
  EXPECT_EQ(ranks.at(1).signal, SIGKILL);
  ranks.erase(ranks.begin() + 1);
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Shutdown, AWorldOfOneLeavesAtOnce) {
  World world;
  let_others_leave_first(world);
  EXPECT_EQ(world.store, nullptr);
}

}  // namespace
}  // namespace rollcall::train
