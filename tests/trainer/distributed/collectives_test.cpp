#include "trainer/distributed/process_group/collectives.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "runtime/base/this_process.h"
#include "tests/support/multiproc.h"
#include "trainer/distributed/backends/gloo/gloo.h"

namespace rollcall::process_group {
namespace {

using testing_support::Rank;
using testing_support::RankResult;
using testing_support::Ranks;
using testing_support::spawn;

TEST(Collectives, AllReduceSumsOnEveryRank) {
  const std::vector<RankResult> ranks = spawn(3, [](Rank& rank) {
    const Group group = rank.make_group();
    at::Tensor doubles = torch::arange(1000, torch::kFloat64) * (rank.rank + 1.0);
    at::Tensor integers = torch::full({2, 3}, std::int64_t{1} << rank.rank);
    MULTIPROC_CHECK(all_reduce_sum(group, doubles).has_value());
    MULTIPROC_CHECK(all_reduce_sum(group, integers).has_value());
    for (std::int64_t i = 0; i < 1000; ++i) {
      MULTIPROC_CHECK(doubles[i].item<double>() == static_cast<double>(i * (1 + 2 + 3)));
    }
    MULTIPROC_CHECK(integers.eq(1 + 2 + 4).all().item<bool>());
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Collectives, AllGatherBytesSupportsADifferentSizePerRank) {
  const std::vector<RankResult> ranks = spawn(4, [](Rank& rank) {
    const Group group = rank.make_group();
    // Rank 0 has nothing to say, the others 7, 14 and 21 bytes.
    const std::vector<std::uint8_t> mine(rank.rank * 7, static_cast<std::uint8_t>(200 + rank.rank));
    const auto all = all_gather_bytes(group, mine);
    MULTIPROC_CHECK(all.has_value() && all->size() == 4);
    for (std::uint32_t other = 0; other < 4; ++other) {
      const std::vector<std::uint8_t> expected(other * 7, static_cast<std::uint8_t>(200 + other));
      MULTIPROC_CHECK(all->at(other) == expected);
    }
    const auto nobody = all_gather_bytes(group, {});
    MULTIPROC_CHECK(nobody.has_value() && *nobody == std::vector<std::vector<std::uint8_t>>(4));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Collectives, BroadcastDistributesTheValuesOfTheRoot) {
  const std::vector<RankResult> ranks = spawn(3, [](Rank& rank) {
    const Group group = rank.make_group();
    for (std::uint32_t root = 0; root < 3; ++root) {
      at::Tensor tensor = torch::full({5}, static_cast<double>(rank.rank));
      MULTIPROC_CHECK(broadcast(group, tensor, root).has_value());
      MULTIPROC_CHECK(tensor.eq(static_cast<double>(root)).all().item<bool>());
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

bool can_unshare_pid_namespace() {
  const pid_t child = fork();
  if (child == 0) {
    _exit(unshare(CLONE_NEWPID) == 0 ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

/// Runs `work` in a new PID namespace, as on another host.
void in_another_pid_namespace(const std::function<void()>& work) {
  MULTIPROC_CHECK(unshare(CLONE_NEWPID) == 0);
  const pid_t child = fork();
  if (child == 0) {
    try {
      work();
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "%s\n", failure.what());
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  MULTIPROC_CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// With Gloo, ranks on one host exchange parts directly and ranks on several hosts use a ring: all choose the same way.
TEST(Collectives, AllGatherGivesTheSameResultOnOneHostAndOnSeveral) {
  if (!can_unshare_pid_namespace()) {
    GTEST_SKIP() << "this user cannot make a PID namespace";
  }
  for (const bool one_host : {true, false}) {
    const std::vector<RankResult> ranks = spawn(3, [one_host](Rank& rank) {
      const auto gather = [&rank, one_host] {
        constexpr std::chrono::seconds kTimeout(60);
        const auto store = c10::make_intrusive<c10d::FileStore>(rank.folder / "gloo", 3);
        const auto gloo = c10::make_intrusive<InPlaceGloo>(store, static_cast<int>(rank.rank), 3,
                                                           c10d::ProcessGroupGloo::Options::create_default(kTimeout));
        MULTIPROC_CHECK(gloo->one_host() == one_host);
        for (const std::int64_t count : {0, 1, 300000}) {
          at::Tensor mine = torch::arange(count) + 1000000 * static_cast<std::int64_t>(rank.rank);
          at::Tensor all = torch::zeros({3 * count}, at::kLong);
          gloo->all_gather_single(all, mine, {})->wait();
          const at::Tensor first = 1000000 * torch::arange(3).unsqueeze(1);
          MULTIPROC_CHECK(all.view({3, count}).equal(torch::arange(count) + first));
        }
      };
      one_host || rank.rank != 1 ? gather() : in_another_pid_namespace(gather);
    });
    EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
  }
}

// Each rank leaves a file before the barrier; after it, all files must be there.
TEST(Collectives, BarrierBlocksUntilEveryRankArrives) {
  const std::vector<RankResult> ranks = spawn(4, [](Rank& rank) {
    const Group group = rank.make_group();
    std::fclose(std::fopen((rank.folder / ("came" + std::to_string(rank.rank))).c_str(), "w"));
    MULTIPROC_CHECK(barrier(group).has_value());
    for (int other = 0; other < 4; ++other) {
      MULTIPROC_CHECK(std::filesystem::exists(rank.folder / ("came" + std::to_string(other))));
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Collectives, SingleRankNeedsNoGroup) {
  const std::vector<RankResult> ranks = spawn(1, [](Rank&) {
    at::Tensor tensor = torch::full({3}, 7.0);
    MULTIPROC_CHECK(all_reduce_sum(nullptr, tensor).has_value());
    MULTIPROC_CHECK(tensor.eq(7.0).all().item<bool>());
    MULTIPROC_CHECK(*all_gather_bytes(nullptr, {1, 2}) == (std::vector<std::vector<std::uint8_t>>{{1, 2}}));
    MULTIPROC_CHECK(barrier(nullptr).has_value() && rank_of(nullptr) == 0 && world_size_of(nullptr) == 1);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

// The group's timeout is a minute and each rank's alarm two: only a noticed loss ends this test with messages.
TEST(Collectives, AKilledRankIsAnErrorOnTheOtherRanks) {
  Ranks running(3, [](Rank& rank) {
    const Group group = rank.make_group();
    MULTIPROC_CHECK(barrier(group).has_value());
    if (rank.rank == 1) {
      pause();  // until the test kills this rank
    }
    std::fclose(std::fopen((rank.folder / ("ready" + std::to_string(rank.rank))).c_str(), "w"));
    at::Tensor tensor = torch::ones({10});
    const Result<void> reduced = all_reduce_sum(group, tensor);
    MULTIPROC_CHECK(!reduced.has_value());
    MULTIPROC_CHECK(reduced.error().exit_code() == ExitCode::Unavailable);
    throw std::runtime_error(reduced.error().message());
  });
  while (!std::filesystem::exists(running.folder() / "ready0") ||
         !std::filesystem::exists(running.folder() / "ready2")) {
    usleep(1000);
  }
  running.signal(1, SIGKILL);
  const std::vector<RankResult>& ranks = running.wait();
  EXPECT_EQ(ranks[1].signal, SIGKILL);
  for (const std::size_t survivor : {0U, 2U}) {
    EXPECT_EQ(ranks[survivor].exit_status, 1);
    const std::string& message = ranks[survivor].message;
    EXPECT_TRUE(message.find(" was lost (") != std::string::npos ||
                message.find("stopped or lost") != std::string::npos)
        << message;
  }
  // Rank 0 holds the store of the roll call, so it knows; where it ends first, rank 2 cannot ask any more.
  const std::string lost = "rank 1 on " + this_host_name() + " was lost (its process ended)";
  EXPECT_NE(ranks[0].message.find(lost), std::string::npos) << ranks[0].message;
}

}  // namespace
}  // namespace rollcall::process_group
