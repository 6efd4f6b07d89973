// Shards in main memory, copied to the compute device and back: results are bit identical. On CPUs both places are the
// same memory, but all copies are made.

#include <gtest/gtest.h>
#include <unistd.h>
#include <numeric>
#include <optional>

#include "tests/trainer/distributed/fsdp_network.h"
#include "trainer/device/amx.h"

namespace rollcall::parallel {
namespace {

using fsdp::AfterForward;
using testing_support::all_succeeded;
using testing_support::batch_loss;
using testing_support::make_mesh;
using testing_support::make_network;
using testing_support::Network;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::report;
using testing_support::sharded;
using testing_support::spawn;
using testing_support::whole_parameters;

struct Outcome {
  std::vector<double> losses;
  std::vector<double> norms;
  at::Tensor parameters;  ///< whole, on rank 0
};

bool operator==(const Outcome& a, const Outcome& b) {
  const bool same_parameters = a.parameters.defined() == b.parameters.defined() &&
                               (!a.parameters.defined() || torch::equal(a.parameters, b.parameters));
  return a.losses == b.losses && a.norms == b.norms && same_parameters;
}

/// Three Adam steps of two micro-batches each, with gradients limited, and an evaluation after each.
Outcome train(Rank& rank, const process_group::Mesh& mesh, const fsdp::Options& options) {
  Network network = make_network();
  const auto replica = sharded(network, mesh, options);
  const auto optimizer = testing_support::make_adam(*replica);
  Outcome outcome;
  for (std::int64_t step = 0; step < 3; ++step) {
    replica->zero_grad();
    for (const bool last : {false, true}) {
      replica->set_gradient_sync(last);
      const at::Tensor loss =
          replica->forward([&] { return batch_loss(network, 2 * step + (last ? 1 : 0), rank.rank); });
      loss.backward();
      outcome.losses.push_back(loss.item<double>());
    }
    outcome.norms.push_back(replica->clip_grad_norm(0.1).item<double>());
    optimizer->step();
    outcome.losses.push_back(replica->evaluate([&] { return batch_loss(network, 100, rank.rank); }).item<double>());
  }
  outcome.parameters = whole_parameters(*replica);
  const fsdp::Counters& counters = replica->sharded().counters();
  MULTIPROC_CHECK((counters.uploaded_bytes > 0) == options.cpu_offload);
  MULTIPROC_CHECK((counters.downloaded_bytes > 0) == options.cpu_offload);
  return outcome;
}

std::vector<fsdp::Options> every_offload_option() {
  std::vector<fsdp::Options> all;
  for (const AfterForward after : {AfterForward::Keep, AfterForward::Shard, AfterForward::SmallShard}) {
    for (const bool both : {true, false}) {
      for (const auto type : {std::optional<at::ScalarType>(), std::optional(at::kBFloat16)}) {
        fsdp::Options options;
        options.after_forward = after;
        options.prefetch = both;
        options.accumulate_whole = both;
        options.alone_from_bytes = both ? 1 : fsdp::Options().alone_from_bytes;
        options.parameter_type = type;
        options.reduce_type = type;
        all.push_back(options);
      }
    }
  }
  return all;
}

void check_offload_changes_nothing(Rank& rank, const process_group::MeshOptions& degrees) {
  device::avoid_unusable_amx();
  for (const std::string& backend : process_group::cpu_backends()) {
    rank.backend = backend;
    const process_group::Mesh mesh = make_mesh(rank, degrees);
    for (fsdp::Options options : every_offload_option()) {
      const Outcome expected = train(rank, mesh, options);
      options.cpu_offload = true;
      MULTIPROC_CHECK(train(rank, mesh, options) == expected);
    }
  }
}

TEST(FsdpOffload, IsBitIdenticalToNoOffloadForEveryOption) {
  const auto two = spawn(2, [](Rank& rank) { check_offload_changes_nothing(rank, {.reshard_degree = 2}); });
  EXPECT_TRUE(all_succeeded(two)) << report(two);
  const auto four = spawn(4, [](Rank& rank) { check_offload_changes_nothing(rank, {.reshard_degree = 2}); });
  EXPECT_TRUE(all_succeeded(four)) << report(four);
}

TEST(FsdpOffload, IsBitIdenticalWithHybridSharding) {
  const auto ranks =
      spawn(4, [](Rank& rank) { check_offload_changes_nothing(rank, {.shard_degree = 2, .reshard_degree = 2}); });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(FsdpOffload, IsBitIdenticalOnOneRank) {
  const auto ranks = spawn(1, [](Rank& rank) {
    fsdp::Options options;
    const Outcome expected = train(rank, {}, options);
    options.cpu_offload = true;
    MULTIPROC_CHECK(train(rank, {}, options) == expected);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

// A shard goes up once for each all-gather from it, its gradient comes down once a step, and both stay what and where
// they were for the optimizer.
TEST(FsdpOffload, UploadsAShardPerGatherAndDownloadsItsGradientOnce) {
  for (const AfterForward after : {AfterForward::Keep, AfterForward::Shard, AfterForward::SmallShard}) {
    const std::vector<RankResult> ranks = spawn(2, [&](Rank& rank) {
      Network network = make_network();
      fsdp::Options options;
      options.after_forward = after;
      options.alone_from_bytes = 1;
      options.cpu_offload = true;
      const auto replica = sharded(network, make_mesh(rank, {.reshard_degree = 2}), options);
      fsdp::ShardedModule& module = replica->sharded();
      const auto optimizer = testing_support::make_adam(*replica);
      const at::Tensor shard = module.shard("blocks.0.conv.weight");
      const void* const place = shard.const_data_ptr();
      for (std::int64_t step = 0; step < 3; ++step) {
        module.reset_counters();
        replica->zero_grad();
        replica->forward([&] { return batch_loss(network, step, rank.rank); }).backward();
        optimizer->step();
        const std::vector<std::int64_t> groups = module.unsharded_bytes_of_blocks();
        const std::int64_t mine = std::accumulate(groups.begin(), groups.end(), std::int64_t{0}) / rank.world_size;
        const std::int64_t kept = (groups.front() + groups.back()) / rank.world_size;
        const std::int64_t again = after == AfterForward::Shard ? mine - kept : 0;
        MULTIPROC_CHECK(module.counters().uploaded_bytes == mine + again);
        MULTIPROC_CHECK(module.counters().downloaded_bytes == mine);
        MULTIPROC_CHECK(module.shard("blocks.0.conv.weight").const_data_ptr() == place);
        MULTIPROC_CHECK(shard.grad().is_cpu() && shard.grad().sizes() == shard.sizes());
      }
    });
    EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
  }
}

TEST(FsdpOffload, PoolHoldsAFewBlocks) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    constexpr std::size_t kBlocks = 100;
    Network network = make_network({.blocks = kBlocks});
    fsdp::Options options;
    options.cpu_offload = true;
    const auto replica = sharded(network, make_mesh(rank), options);
    testing_support::train(*replica, network, rank.rank, /*max_norm=*/0, /*steps=*/4);
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    MULTIPROC_CHECK(replica->sharded().pool_bytes() <= kBlocks / 3 * page);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::parallel
