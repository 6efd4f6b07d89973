// One of four ranks is killed or stopped, on every backend: the others get an error, never a hang, and form a smaller
// group in the same processes.

#include <gtest/gtest.h>
#include <fstream>

#include "tests/support/multiproc.h"
#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::process_group {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::Ranks;
using testing_support::report;

constexpr std::uint32_t kLost = 3;

/// Adds up until it fails.
Error add_up_until_failure(const Rank& rank, const Group& group) {
  for (;;) {
    at::Tensor values = torch::ones({300000});
    const Result<void> added = all_reduce_sum(group, values);
    if (!added) {
      return added.error();
    }
    MULTIPROC_CHECK(values.eq(4.0).all().item<bool>());
    std::ofstream(rank.folder / ("added" + std::to_string(rank.rank)));
  }
}

/// The survivors' part: the error, then a group of three.
void survive(Rank& rank, std::chrono::milliseconds timeout) {
  const auto first_store = rank.store_of_rank_0();
  Group group = rank.make_group_over(first_store, timeout);
  const Error error = add_up_until_failure(rank, group);
  const auto says = [&error](const char* words) { return error.reason.find(words) != std::string::npos; };
  MULTIPROC_CHECK(error.exit_code() == ExitCode::Unavailable);
  MULTIPROC_CHECK(says("was lost (its process ended)") || says("did not end within"));  // killed or stopped
  leave_behind(std::move(group));  // before the next one is made: peers that still wait for this rank notice
  const auto store = c10::make_intrusive<c10d::FileStore>(rank.folder / "smaller", 3);
  const auto smaller = make_process_group(store, rank.rank, 3, {.backend = rank.backend});
  MULTIPROC_CHECK(smaller.has_value());
  at::Tensor values = torch::ones({300000});
  MULTIPROC_CHECK(all_reduce_sum(smaller->process_group, values).has_value());
  MULTIPROC_CHECK(values.eq(3.0).all().item<bool>());
  MULTIPROC_CHECK(barrier(smaller->process_group).has_value());
  std::ofstream(rank.folder / ("survived" + std::to_string(rank.rank)));
}

void await_file(const std::filesystem::path& path) {
  for (int i = 0; i < 30'000 && !std::filesystem::exists(path); ++i) {
    usleep(1000);
  }
}

/// Rank 0 begins a collective that rank 1, which keeps its connections, never joins.
void leave_a_collective(Rank& rank) {
  Group group = rank.make_group();
  const std::filesystem::path left = rank.folder / "left";
  if (rank.rank == 0) {
    std::vector<at::Tensor> values{torch::ones({1})};
    const auto waiting = group->allreduce(values);
    MULTIPROC_CHECK(!waiting->isCompleted());
    leave_behind(std::move(group));
    std::ofstream(left) << "";
    return;
  }
  await_file(left);
  MULTIPROC_CHECK(std::filesystem::exists(left));
}

TEST(LeaveBehind, DoesNotWaitForAPendingCollective) {
  Ranks running(2, leave_a_collective);
  const std::vector<RankResult> ranks = running.wait();
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

class LostRank : public testing::TestWithParam<std::string> {};

TEST_P(LostRank, KilledIsAnErrorOnTheOthersWhichRegroup) {
  Ranks running(4, [](Rank& rank) {
    rank.backend = GetParam();
    survive(rank, std::chrono::seconds(60));
  });
  await_file(running.folder() / "added0");
  running.signal(kLost, SIGKILL);
  std::vector<RankResult> ranks = running.wait();
  EXPECT_EQ(ranks.at(kLost).signal, SIGKILL);
  ranks.pop_back();
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST_P(LostRank, StoppedIsATimeoutOnTheOthersWhichRegroup) {
  Ranks running(4, [](Rank& rank) {
    rank.backend = GetParam();
    survive(rank, std::chrono::seconds(3));
  });
  await_file(running.folder() / "added0");
  running.signal(kLost, SIGSTOP);
  for (std::uint32_t rank = 0; rank < kLost; ++rank) {
    await_file(running.folder() / ("survived" + std::to_string(rank)));
  }
  running.signal(kLost, SIGKILL);
  std::vector<RankResult> ranks = running.wait();
  ranks.pop_back();
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

INSTANTIATE_TEST_SUITE_P(EveryBackend, LostRank, testing::ValuesIn(cpu_backends()),
                         [](const auto& information) { return information.param; });

}  // namespace
}  // namespace rollcall::process_group
