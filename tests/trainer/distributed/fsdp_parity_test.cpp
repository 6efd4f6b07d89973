// Sharded training computes what data parallelism and a single process compute.

#include <gtest/gtest.h>
#include <cmath>
#include <random>
#include <thread>

#include "tests/trainer/distributed/fsdp_network.h"

namespace rollcall::parallel {
namespace {

using fsdp::AfterForward;
using testing_support::all_succeeded;
using testing_support::data_parallel;
using testing_support::make_mesh;
using testing_support::make_network;
using testing_support::Network;
using testing_support::NetworkOptions;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::report;
using testing_support::sharded;
using testing_support::spawn;
using testing_support::train;
using testing_support::train_alone;
using testing_support::whole_parameters;

/// All options that order and divide the work differently, none of which may change a bit.
std::vector<fsdp::Options> every_option() {
  std::vector<fsdp::Options> all;
  for (const AfterForward after : {AfterForward::Keep, AfterForward::Shard, AfterForward::SmallShard}) {
    for (const bool prefetch : {true, false}) {
      fsdp::Options options;
      options.after_forward = after;
      options.prefetch = prefetch;
      options.reductions_in_flight = prefetch ? 2 : 1;
      options.alone_from_bytes = prefetch ? 1 : fsdp::Options().alone_from_bytes;
      all.push_back(options);
    }
  }
  return all;
}

/// Sleeps up to 5 ms, differently on every rank, around every collective.
std::function<void()> random_delays(std::uint32_t rank) {
  auto generator = std::make_shared<std::mt19937>(rank);
  return [generator] { std::this_thread::sleep_for(std::chrono::microseconds((*generator)() % 5000)); };
}

bool close(const std::vector<double>& a, const std::vector<double>& b, double rtol, double atol) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= atol + rtol * std::abs(b[i]))) {
      return false;
    }
  }
  return a.size() == b.size();
}

void check_equal_to_data_parallel(Rank& rank) {
  const process_group::Mesh mesh = make_mesh(rank, {.reshard_degree = 2});
  Network plain = make_network();
  const auto ddp = data_parallel(plain, mesh.world);
  const std::vector<double> expected = train(*ddp, plain, rank.rank);
  for (const fsdp::Options& options : every_option()) {
    Network network = make_network();
    const auto replica = sharded(network, mesh, options);
    MULTIPROC_CHECK(train(*replica, network, rank.rank) == expected);
    const at::Tensor whole = whole_parameters(*replica);
    MULTIPROC_CHECK(rank.rank != 0 || torch::equal(whole, whole_parameters(*ddp)));
  }
}

TEST(FsdpParity, TwoRanksAreBitIdenticalToDataParallelForEveryOption) {
  const std::vector<RankResult> ranks = spawn(2, check_equal_to_data_parallel);
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(FsdpParity, RandomDelaysAroundCollectivesChangeNothing) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const process_group::Mesh mesh = make_mesh(rank, {.reshard_degree = 2});
    Network plain = make_network();
    const std::vector<double> expected = train(*data_parallel(plain, mesh.world), plain, rank.rank);
    for (const AfterForward after : {AfterForward::Keep, AfterForward::Shard, AfterForward::SmallShard}) {
      Network network = make_network();
      fsdp::Options options;
      options.after_forward = after;
      options.alone_from_bytes = 1;
      options.around_collective = random_delays(rank.rank);
      MULTIPROC_CHECK(train(*sharded(network, mesh, options), network, rank.rank) == expected);
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

// Longer than any computation between them: a missing wait would show. Each rank is late at different places.
TEST(FsdpParity, DelaysOf100MillisecondsBeforeAndAfterCollectivesChangeNothing) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const process_group::Mesh mesh = make_mesh(rank);
    const NetworkOptions kind{.blocks = 2};
    Network plain = make_network(kind);
    const std::vector<double> expected = train(*data_parallel(plain, mesh.world), plain, rank.rank, 0, 3);
    for (const AfterForward after : {AfterForward::Keep, AfterForward::Shard}) {
      Network network = make_network(kind);
      fsdp::Options options;
      options.after_forward = after;
      options.alone_from_bytes = 1;
      auto calls = std::make_shared<std::uint32_t>(rank.rank);
      options.around_collective = [calls] {
        *calls += 1;
        std::this_thread::sleep_for(std::chrono::milliseconds(*calls % 3 == 0 ? 100 : 0));
      };
      MULTIPROC_CHECK(train(*sharded(network, mesh, options), network, rank.rank, 0, 3) == expected);
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(FsdpParity, RanksWithTheSameDataAreBitIdenticalToASingleProcess) {
  for (const std::uint32_t world_size : {2U, 4U}) {
    const std::vector<RankResult> ranks = spawn(world_size, [](Rank& rank) {
      const process_group::Mesh mesh = make_mesh(rank, {.reshard_degree = 2});
      const std::vector<double> expected = train_alone({}, 0);
      for (const AfterForward after : {AfterForward::Keep, AfterForward::Shard, AfterForward::SmallShard}) {
        Network network = make_network();
        fsdp::Options options;
        options.after_forward = after;
        options.alone_from_bytes = 1;
        MULTIPROC_CHECK(train(*sharded(network, mesh, options), network, 0) == expected);
      }
    });
    EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
  }
}

void check_close_to_data_parallel(Rank& rank, const process_group::MeshOptions& degrees) {
  const process_group::Mesh mesh = make_mesh(rank, degrees);
  for (const NetworkOptions& kind :
       {NetworkOptions{.batch_norm = false}, NetworkOptions{.batch_norm = true, .type = at::kDouble}}) {
    Network plain = make_network(kind);
    const std::vector<double> expected = train(*data_parallel(plain, mesh.world), plain, rank.rank);
    Network network = make_network(kind);
    const std::vector<double> losses = train(*sharded(network, mesh), network, rank.rank);
    MULTIPROC_CHECK(close(losses, expected, 1.3e-6, 1e-5));
  }
}

TEST(FsdpParity, MoreRanksMatchDataParallelWithinTheToleranceOfPyTorch) {
  for (const std::uint32_t world_size : {3U, 4U, 8U}) {
    const auto ranks = spawn(world_size, [](Rank& rank) { check_close_to_data_parallel(rank, {}); });
    EXPECT_TRUE(all_succeeded(ranks)) << world_size << " ranks\n" << report(ranks);
  }
}

TEST(FsdpParity, HybridShardingMatchesDataParallel) {
  const auto ranks = spawn(4, [](Rank& rank) { check_close_to_data_parallel(rank, {.shard_degree = 2}); });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(FsdpParity, EveryMeshShapeIsBitIdenticalToASingleProcess) {
  for (const std::uint32_t shard_degree : {1U, 2U}) {
    const std::vector<RankResult> ranks = spawn(4, [&](Rank& rank) {
      const process_group::Mesh mesh = make_mesh(rank, {.shard_degree = shard_degree});
      Network network = make_network();
      MULTIPROC_CHECK(train(*sharded(network, mesh), network, 0) == train_alone({}, 0));
    });
    EXPECT_TRUE(all_succeeded(ranks)) << "shard degree " << shard_degree << "\n" << report(ranks);
  }
}

TEST(FsdpParity, ClippedGradientsAreBitIdenticalToDataParallel) {
  constexpr double kMaxNorm = 0.1;
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const process_group::Mesh mesh = make_mesh(rank);
    Network plain = make_network();
    const std::vector<double> expected = train(*data_parallel(plain, mesh.world), plain, rank.rank, kMaxNorm);
    Network network = make_network();
    MULTIPROC_CHECK(train(*sharded(network, mesh), network, rank.rank, kMaxNorm) == expected);
    Network unclipped = make_network();
    MULTIPROC_CHECK(train(*sharded(unclipped, mesh), unclipped, rank.rank) != expected);
    Network same_data = make_network();
    MULTIPROC_CHECK(train(*sharded(same_data, mesh), same_data, 0, kMaxNorm) == train_alone({}, 0, kMaxNorm));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::parallel
