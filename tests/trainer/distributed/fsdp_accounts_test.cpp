// What sharded training holds in memory and sends, counted in bytes.

#include <gtest/gtest.h>
#include <algorithm>
#include <array>
#include <numeric>

#include "tests/trainer/distributed/fsdp_network.h"

namespace rollcall::parallel {
namespace {

using fsdp::AfterForward;
using testing_support::all_succeeded;
using testing_support::make_mesh;
using testing_support::make_network;
using testing_support::Network;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::report;
using testing_support::sharded;
using testing_support::spawn;
using testing_support::train_step;

// Whole parameters: the root's, the block that computes and what is gathered meanwhile; never the model.
void check_memory(Rank& rank) {
  Network network = make_network({.blocks = 8});
  std::int64_t all = 0;
  for (const at::Tensor& parameter : network->parameters()) {
    all += static_cast<std::int64_t>(parameter.nbytes());
  }
  const auto replica = sharded(network, make_mesh(rank));
  fsdp::ShardedModule& module = replica->sharded();
  const auto optimizer = testing_support::make_adam(*replica);
  train_step(*replica, network, *optimizer, rank.rank);
  module.reset_counters();
  MULTIPROC_CHECK(module.counters().unsharded_bytes == 0);
  train_step(*replica, network, *optimizer, rank.rank);
  const std::vector<std::int64_t> groups = module.unsharded_bytes_of_blocks();
  const std::int64_t largest = *std::max_element(groups.begin() + 1, groups.end());
  // What shares a buffer is there twice while it is copied out of it; the root's, before all others.
  MULTIPROC_CHECK(module.counters().peak_unsharded_bytes <= std::max(2 * groups[0], groups[0] + 2 * largest));
  MULTIPROC_CHECK(module.counters().unsharded_bytes == 0);
  // Parameters, gradients and both moments of Adam: 1/N each, but for the rounding up of rows.
  std::int64_t held = 0;
  for (const auto& entry : replica->named_parameters()) {
    const at::Tensor& shard = entry.value();
    const auto& state =
        dynamic_cast<const torch::optim::AdamParamState&>(*optimizer->state().at(shard.unsafeGetTensorImpl()));
    held += static_cast<std::int64_t>(shard.nbytes() + shard.grad().nbytes() + state.exp_avg().nbytes() +
                                      state.exp_avg_sq().nbytes());
  }
  const std::int64_t padded = std::accumulate(groups.begin(), groups.end(), std::int64_t{0});
  MULTIPROC_CHECK(held <= 4 * padded / rank.world_size && padded < all + all / 4);
}

TEST(Fsdp, PeakMemoryIsTheShardsAndTheTwoLargestBlocks) {
  for (const std::uint32_t world_size : {2U, 4U}) {
    const std::vector<RankResult> ranks = spawn(world_size, check_memory);
    EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
  }
}

// What travels by itself is received where it is used: without prefetching there is one block beside the root.
TEST(Fsdp, EvenlyDividedBlocksAreGatheredInPlace) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const process_group::Mesh mesh = make_mesh(rank);
    for (const std::int64_t alone_from_bytes : {std::int64_t{1}, fsdp::Options().alone_from_bytes}) {
      torch::nn::Sequential stack;
      for (int i = 0; i < 4; ++i) {
        stack->push_back(torch::nn::Linear(16, 16));
      }
      fsdp::Options options;
      options.prefetch = false;
      options.alone_from_bytes = alone_from_bytes;
      const auto replica = *ShardedReplica::create(stack.ptr(), mesh, options);
      fsdp::ShardedModule& module = replica->sharded();
      module.reset_counters();
      replica->forward([&] { return stack->forward(torch::ones({1, 16})).sum(); }).backward();
      const std::int64_t block = module.unsharded_bytes_of_blocks().back();
      MULTIPROC_CHECK(module.counters().peak_unsharded_bytes == (alone_from_bytes == 1 ? block : 2 * block));
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

// Three small blocks take less time than the large one behind them needs to arrive.
TEST(Fsdp, PrefetchesALargeBlockBeforeTheSmallBlocksAheadOfItCompute) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    fsdp::ShardedModule* module = nullptr;
    std::vector<std::int64_t> gathers;
    torch::nn::Sequential stack;
    constexpr std::array<std::int64_t, 6> kWidths{16, 16, 16, 16, 64, 16};
    for (std::size_t i = 1; i < kWidths.size(); ++i) {
      stack->push_back(torch::nn::Linear(kWidths[i - 1], kWidths[i]));
      stack->push_back(torch::nn::Functional([&](const at::Tensor& input) {
        gathers.push_back(module->counters().gathers);
        return input;
      }));
    }
    const auto replica = *ShardedReplica::create(stack.ptr(), make_mesh(rank), {.alone_from_bytes = 1});
    module = &replica->sharded();
    module->reset_counters();
    replica->forward([&] { return stack->forward(torch::ones({1, 16})).sum(); }).backward();
    MULTIPROC_CHECK((gathers == std::vector<std::int64_t>{4, 4, 4, 5, 5}));
    std::vector<std::int64_t> blocks = module->unsharded_bytes_of_blocks();
    std::ranges::sort(blocks, std::greater());
    MULTIPROC_CHECK(module->counters().peak_unsharded_bytes <= blocks[0] + blocks[1]);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// Bytes of one step against what the algorithm needs at least.
void check_traffic(Rank& rank, AfterForward after, std::int64_t alone_from_bytes) {
  const process_group::Mesh mesh = make_mesh(rank);
  Network network = make_network({.blocks = 4});
  fsdp::Options options;
  options.after_forward = after;
  options.alone_from_bytes = alone_from_bytes;
  const auto replica = sharded(network, mesh, options);
  fsdp::ShardedModule& module = replica->sharded();
  const auto optimizer = testing_support::make_adam(*replica);
  for (int i = 0; i < 2; ++i) {
    module.reset_counters();
    train_step(*replica, network, *optimizer, rank.rank);
    const std::vector<std::int64_t> groups = module.unsharded_bytes_of_blocks();
    const std::int64_t all = std::accumulate(groups.begin(), groups.end(), std::int64_t{0});
    // The root and the last block stay whole between forward and backward; the others are gathered twice.
    const std::int64_t again = after == AfterForward::Keep ? 0 : all - groups.front() - groups.back();
    const std::int64_t others = rank.world_size - 1;
    MULTIPROC_CHECK(module.counters().gathered_bytes == (all + again) / rank.world_size * others);
    MULTIPROC_CHECK(module.counters().scattered_bytes == all / rank.world_size * others);
    MULTIPROC_CHECK(module.counters().reductions == static_cast<std::int64_t>(groups.size()));
  }
}

TEST(Fsdp, AStepTransfersTheMinimumNumberOfBytes) {
  for (const AfterForward after : {AfterForward::Keep, AfterForward::Shard}) {
    for (const std::int64_t alone_from_bytes : {std::int64_t{1}, fsdp::Options().alone_from_bytes}) {
      const auto ranks = spawn(4, [&](Rank& rank) { check_traffic(rank, after, alone_from_bytes); });
      EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
    }
  }
}

}  // namespace
}  // namespace rollcall::parallel
