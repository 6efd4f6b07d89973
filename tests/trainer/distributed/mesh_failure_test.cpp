// A failure of a process or of one of its groups is reported to the ranks of its other groups.

#include <gtest/gtest.h>

#include "runtime/base/this_process.h"
#include "tests/support/multiproc.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/distributed/process_group/mesh.h"

namespace rollcall::process_group {
namespace {

using testing_support::Rank;
using testing_support::RankResult;
using testing_support::report;
using testing_support::spawn;

/// Two divided models, one the replica of the other: shard groups {0, 1} and {2, 3}, replicate groups {0, 2} and {1,
/// 3}.
struct Grid {
  explicit Grid(const Rank& rank) : options{.backend = rank.backend, .timeout = std::chrono::seconds(60)} {
    const auto store = c10::make_intrusive<c10d::FileStore>(rank.folder / "grid", -1);
    const auto world = make_process_group(store, rank.rank, rank.world_size, options);
    if (!world) {
      throw std::runtime_error(world.error().message());
    }
    auto made = make_mesh(world->process_group, store, {.shard_degree = 2}, options);
    mesh = made ? *made : throw std::runtime_error(made.error().message());
    MULTIPROC_CHECK(barrier(mesh.world).has_value());
  }

  ProcessGroupOptions options;
  Mesh mesh;
};

/// Ends the rank with what a sum over `group` fails with.
void add_up(const Group& group) {
  at::Tensor tensor = torch::ones({10});
  if (const Result<void> added = all_reduce_sum(group, tensor); !added) {
    throw std::runtime_error(added.error().message());
  }
}

bool says(const RankResult& rank, const std::string& part) { return rank.message.find(part) != std::string::npos; }

class MeshFailure : public testing::TestWithParam<std::string> {};

TEST_P(MeshFailure, AFailureInOneGroupIsReportedToOtherGroupsOfTheRank) {
  const std::vector<RankResult> ranks = spawn(4, [](Rank& rank) {
    rank.backend = GetParam();
    const Grid grid(rank);
    if (rank.rank == 2) {
      raise(SIGKILL);
    }
    add_up(rank.rank == 3 ? grid.mesh.shard : grid.mesh.replicate);
  });
  EXPECT_TRUE(says(ranks[3], "rank 2 on " + this_host_name() + " was lost (its process ended)")) << report(ranks);
  EXPECT_FALSE(says(ranks[3], "rank 0")) << "as which rank 2 counts in their group\n" << report(ranks);
  EXPECT_TRUE(says(ranks[1], "rank 3 gave up: all-reduce 1 (Float [10], sum, 40 B) failed: rank 2 on " +
                                 this_host_name() + " was lost (its process ended)"))
      << report(ranks);
}

/// Rank 3's program fails while the others wait for it: rank 1 in its replicate group, rank 2 in its shard group, or
/// all in the world.
std::vector<RankResult> with_a_full_disk(const std::string& backend, bool in_world) {
  return spawn(4, [&](Rank& rank) {
    rank.backend = backend;
    const Grid grid(rank);
    if (rank.rank == 3) {
      grid.options.membership->give_up("the disk is full");
    } else if (in_world) {
      add_up(grid.mesh.world);
    } else if (rank.rank != 0) {
      add_up(rank.rank == 1 ? grid.mesh.replicate : grid.mesh.shard);
    }
  });
}

TEST_P(MeshFailure, AFailureOfTheProgramIsReportedToAllGroupsOfTheRank) {
  const std::vector<RankResult> of_its_groups = with_a_full_disk(GetParam(), false);
  EXPECT_TRUE(says(of_its_groups[1], "rank 3 gave up: the disk is full")) << report(of_its_groups);
  EXPECT_TRUE(says(of_its_groups[2], "rank 3 gave up: the disk is full")) << report(of_its_groups);
  const std::vector<RankResult> of_world = with_a_full_disk(GetParam(), true);
  for (const std::size_t rank : {0U, 1U, 2U}) {
    EXPECT_TRUE(says(of_world[rank], "rank 3 gave up: the disk is full")) << report(of_world);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryBackend, MeshFailure, testing::ValuesIn(cpu_backends()),
                         [](const auto& information) { return information.param; });

}  // namespace
}  // namespace rollcall::process_group
