// A model that does not fit one rank's memory trains on several that divide it.

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>
#include <fstream>

#include "tests/trainer/distributed/fsdp_network.h"
#include "trainer/distributed/errors/exceptions.h"

namespace rollcall::parallel {
namespace {

using testing_support::all_succeeded;
using testing_support::make_mesh;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::report;
using testing_support::spawn;

constexpr std::int64_t kWidth = 1024;
constexpr std::int64_t kLayers = 16;  // 67 MB of parameters

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCanLimit = false;
#else
constexpr bool kCanLimit = true;
#endif
constexpr const char* kWhyNot = "AddressSanitizer's memory counts against the limit, and it ends who gets none";

/// Bytes of private writable memory, which RLIMIT_DATA limits.
std::uint64_t data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmData:") {
      std::uint64_t kibibytes = 0;
      status >> kibibytes;
      return kibibytes * 1024;
    }
  }
  throw std::runtime_error("no VmData");
}

/// Room for 3.3 times the parameters: Adam wants four times as much of a rank that has them all. glibc's malloc would
/// move its threshold for blocks of their own up to the size of a freed parameter and keep what is freed in between.
void cap_memory() {
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  constexpr std::uint64_t kParameters = 4 * kLayers * kWidth * (kWidth + 1);
  const rlim_t most = data_bytes() + kParameters * 33 / 10;
  const rlimit limit{most, most};
  MULTIPROC_CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
}

torch::nn::Sequential wide_network() {
  torch::nn::Sequential network;
  for (std::int64_t i = 0; i < kLayers; ++i) {
    network->push_back(torch::nn::Linear(torch::nn::LinearOptions(kWidth, kWidth)));
  }
  return network;
}

/// Two Adam steps of a model made within the limit. Errors: memory ran out.
Result<void> train_capped(const process_group::Mesh& mesh, bool divided) {
  cap_memory();
  return process_group::guard_collective(mesh.world, [&] {
    torch::nn::Sequential network = wide_network();
    std::unique_ptr<Replica> replica;
    if (divided) {
      auto made = ShardedReplica::create(network.ptr(), mesh, {});
      replica = made ? std::move(*made) : throw std::runtime_error(made.error().message());
    } else {
      auto made = DataParallel::create(network.ptr(), mesh.world);
      replica = made ? std::move(*made) : throw std::runtime_error(made.error().message());
    }
    const auto optimizer = testing_support::make_adam(*replica);
    for (int step = 0; step < 2; ++step) {
      replica->zero_grad();
      replica->forward([&] { return network->forward(torch::ones({2, kWidth})).square().mean(); }).backward();
      optimizer->step();
    }
  });
}

TEST(FsdpMemory, AModelTooLargeForOneRankTrainsShardedOnFour) {
  if (!kCanLimit) {
    GTEST_SKIP() << kWhyNot;
  }
  const std::vector<RankResult> ranks = spawn(4, [](Rank& rank) {
    const Result<void> trained = train_capped(make_mesh(rank), true);
    if (!trained) {
      throw std::runtime_error(trained.error().message());
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(FsdpMemory, OutOfMemoryWithoutShardingSuggestsFsdp) {
  if (!kCanLimit) {
    GTEST_SKIP() << kWhyNot;
  }
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const Result<void> trained = train_capped(make_mesh(rank), false);
    MULTIPROC_CHECK(!trained.has_value());
    MULTIPROC_CHECK(trained.error().exit_code() == ExitCode::Unavailable);
    throw std::runtime_error(trained.error().message());
  });
  const bool told = std::any_of(ranks.begin(), ranks.end(), [](const RankResult& rank) {
    return rank.message.find("rollcall: memory: ") == 0 && rank.message.find("--parallel=fsdp") != std::string::npos;
  });
  EXPECT_TRUE(told) << report(ranks);
}

TEST(FsdpMemory, PoolHoldsAFewBlocksForAnyModelDepth) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    constexpr std::int64_t kBlocks = 100;
    testing_support::Network network = testing_support::make_network({.blocks = kBlocks});
    const auto replica = testing_support::sharded(network, make_mesh(rank));
    testing_support::train(*replica, network, rank.rank, /*max_norm=*/0, /*steps=*/4);
    // A block is smaller than a page and takes one. The root takes three; as with each block there is room for its
    // parameters, for the all-gather's result and twice for gradients.
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    MULTIPROC_CHECK(replica->sharded().pool_bytes() >= 6 * page);
    MULTIPROC_CHECK(replica->sharded().pool_bytes() <= kBlocks / 3 * page);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::parallel
