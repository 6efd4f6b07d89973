#include "trainer/parallel/fsdp/fully_shard.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <numeric>
#include <sstream>

#include "tests/multiproc/fsdp_network.h"

namespace rollcall::parallel {
namespace {

using fsdp::AfterForward;
using testing_support::all_succeeded;
using testing_support::batch_loss;
using testing_support::data_parallel;
using testing_support::make_mesh;
using testing_support::make_network;
using testing_support::Network;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::report;
using testing_support::sharded;
using testing_support::spawn;
using testing_support::whole_parameters;

std::string message_of(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
}

void step(Replica& replica, Network& network, torch::optim::Optimizer& optimizer, std::uint32_t data) {
  replica.zero_grad();
  replica.forward([&] { return batch_loss(network, 0, data); }).backward();
  optimizer.step();
}

// Reading, copying, saving and writing: never a crash, an empty tensor or silence.
TEST(Fsdp, UsingAShardedParameterIsAnErrorThatNamesIt) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    Network network = make_network();
    const auto replica = sharded(network, make_mesh(rank));
    const at::Tensor weight = network->named_parameters()["blocks.1.conv.weight"];
    std::ostringstream stream;
    const std::vector<std::function<void()>> uses = {
        [&] { (void)weight.sum(); },          [&] { (void)weight.clone(); },
        [&] { torch::save(weight, stream); }, [&] { network->forward(torch::zeros({1, 3, 6, 6})); },
        [&] { weight.data().fill_(0); },
    };
    for (const auto& use : uses) {
      MULTIPROC_CHECK(message_of(use).find("is sharded") != std::string::npos);
    }
    MULTIPROC_CHECK(message_of(uses[0]).find("blocks.1.conv.weight") != std::string::npos);
    const auto optimizer = testing_support::make_adam(*replica);
    step(*replica, network, *optimizer, rank.rank);  // and training goes on
    MULTIPROC_CHECK(message_of(uses[0]).find("is sharded") != std::string::npos);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Fsdp, NamesAndTensorsOfTheModuleStayAndShardsKeepTheirShapeButForRows) {
  const std::vector<RankResult> ranks = spawn(4, [](Rank& rank) {
    Network network = make_network();
    const auto before = network->named_parameters();
    const auto replica = sharded(network, make_mesh(rank));
    const auto shards = replica->named_parameters();
    MULTIPROC_CHECK(shards.keys() == before.keys());
    for (const auto& entry : network->named_parameters()) {
      MULTIPROC_CHECK(entry.value().is_same(before[entry.key()]));
      MULTIPROC_CHECK(entry.value().dim() == 0 ||
                      shards[entry.key()].sizes().slice(1) == entry.value().sizes().slice(1));
    }
    // Seven rows in chunks of two: the last rank has one; of one row, only the first rank has any.
    MULTIPROC_CHECK(shards["stem.weight"].size(0) == (rank.rank == 3 ? 1 : 2));
    MULTIPROC_CHECK(shards["blocks.0.shift"].numel() == (rank.rank == 0 ? 1 : 0));
    MULTIPROC_CHECK(shards["blocks.0.scale"].numel() == (rank.rank == 0 ? 1 : 0));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Fsdp, WhatIsGatheredIsWhatWasShardedAndPartsOfItAreTheShards) {
  const std::vector<RankResult> ranks = spawn(3, [](Rank& rank) {
    Network network = make_network();
    std::map<std::string, at::Tensor> before;
    for (const auto& entry : network->named_parameters()) {
      before[entry.key()] = entry.value().detach().clone();
    }
    const auto replica = sharded(network, make_mesh(rank));
    for (const auto& entry : replica->named_parameters()) {
      const at::Tensor whole = replica->gather(entry.key(), entry.value());
      MULTIPROC_CHECK(whole.defined() == (rank.rank == 0));
      MULTIPROC_CHECK(!whole.defined() || torch::equal(whole, before[entry.key()]));
      MULTIPROC_CHECK(torch::equal(replica->part_of(entry.key(), before[entry.key()]), entry.value()));
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

// Whole parameters: the root's, the block that computes and the one that is gathered meanwhile; never the model.
void check_memory(Rank& rank) {
  Network network = make_network({.blocks = 8});
  std::int64_t all = 0;
  for (const at::Tensor& parameter : network->parameters()) {
    all += static_cast<std::int64_t>(parameter.nbytes());
  }
  const auto replica = sharded(network, make_mesh(rank));
  fsdp::ShardedModule& module = replica->sharded();
  const auto optimizer = testing_support::make_adam(*replica);
  step(*replica, network, *optimizer, rank.rank);
  module.reset_counters();
  MULTIPROC_CHECK(module.counters().whole_bytes == 0);
  step(*replica, network, *optimizer, rank.rank);
  const std::vector<std::int64_t> groups = module.whole_bytes();
  const std::int64_t largest = *std::max_element(groups.begin() + 1, groups.end());
  // Each group is there twice while it is copied out of the all-gather's result; the root's, before all others.
  MULTIPROC_CHECK(module.counters().peak_whole_bytes <= std::max(2 * groups[0], groups[0] + 2 * largest));
  MULTIPROC_CHECK(module.counters().whole_bytes == 0);
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

TEST(Fsdp, ARankHoldsItsShardsAndTheTwoLargestBlocks) {
  for (const std::uint32_t world_size : {2U, 4U}) {
    const std::vector<RankResult> ranks = spawn(world_size, check_memory);
    EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
  }
}

/// Bytes of one step against what the algorithm needs at least.
void check_traffic(Rank& rank, AfterForward after) {
  const process_group::Mesh mesh = make_mesh(rank);
  Network network = make_network({.blocks = 4});
  fsdp::Options options;
  options.after_forward = after;
  const auto replica = sharded(network, mesh, options);
  fsdp::ShardedModule& module = replica->sharded();
  const auto optimizer = testing_support::make_adam(*replica);
  for (int i = 0; i < 2; ++i) {
    module.reset_counters();
    step(*replica, network, *optimizer, rank.rank);
    const std::vector<std::int64_t> groups = module.whole_bytes();
    const std::int64_t all = std::accumulate(groups.begin(), groups.end(), std::int64_t{0});
    // The root and the last block stay whole between forward and backward; the others are gathered twice.
    const std::int64_t again = after == AfterForward::Keep ? 0 : all - groups.front() - groups.back();
    const std::int64_t others = rank.world_size - 1;
    MULTIPROC_CHECK(module.counters().gathered_bytes == (all + again) / rank.world_size * others);
    MULTIPROC_CHECK(module.counters().scattered_bytes == all / rank.world_size * others);
    MULTIPROC_CHECK(module.counters().reductions == static_cast<std::int64_t>(groups.size()));
  }
}

TEST(Fsdp, AStepMovesNoMoreBytesThanTheAlgorithmNeeds) {
  for (const AfterForward after : {AfterForward::Keep, AfterForward::Shard}) {
    const std::vector<RankResult> ranks = spawn(3, [&](Rank& rank) { check_traffic(rank, after); });
    EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
  }
}

TEST(Fsdp, AccumulatedGradientsTravelOnceAndAreTheSumOfTheBatches) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    Network alone = make_network();
    const auto single = data_parallel(alone, nullptr);
    single->zero_grad();
    for (std::int64_t i = 0; i < 3; ++i) {
      single->forward([&] { return batch_loss(alone, i, 0); }).backward();
    }
    Network network = make_network();
    const auto replica = sharded(network, make_mesh(rank));
    replica->zero_grad();
    for (std::int64_t i = 0; i < 3; ++i) {
      replica->set_gradient_sync(i == 2);
      replica->forward([&] { return batch_loss(network, i, 0); }).backward();
    }
    MULTIPROC_CHECK(replica->sharded().counters().reductions == 4);
    for (const auto& entry : replica->named_parameters()) {
      const at::Tensor expected = alone->named_parameters()[entry.key()].grad();
      MULTIPROC_CHECK(torch::equal(entry.value().grad(), replica->part_of(entry.key(), expected)));
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

// With accumulation into the shards no whole gradient outlives its micro-batch, at the price of N reductions.
TEST(Fsdp, GradientsAccumulatedInShardsAreTheSameAndTravelEachTime) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const process_group::Mesh mesh = make_mesh(rank);
    std::map<bool, std::map<std::string, at::Tensor>> gradients;
    for (const bool whole : {true, false}) {
      Network network = make_network();
      fsdp::Options options;
      options.accumulate_whole = whole;
      const auto replica = sharded(network, mesh, options);
      for (std::int64_t i = 0; i < 3; ++i) {
        replica->set_gradient_sync(i == 2);
        replica->forward([&] { return batch_loss(network, i, rank.rank); }).backward();
      }
      MULTIPROC_CHECK(replica->sharded().counters().reductions == (whole ? 4 : 12));
      for (const auto& entry : replica->named_parameters()) {
        gradients[whole][entry.key()] = entry.value().grad();
      }
    }
    for (const auto& [name, gradient] : gradients[true]) {
      MULTIPROC_CHECK(torch::allclose(gradient, gradients[false][name], 1.3e-6, 1e-6));
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Fsdp, FrozenParametersAreShardedAndKeepTheirValues) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const auto freeze = [](Network& network) {
      network->stem->weight.set_requires_grad(false);
      network->blocks[1]->as<testing_support::OddBlock>()->conv->weight.set_requires_grad(false);
      for (at::Tensor& parameter : network->blocks[2]->parameters()) {
        parameter.set_requires_grad(false);
      }
    };
    Network alone = make_network();
    freeze(alone);
    const auto single = data_parallel(alone, nullptr);
    Network network = make_network();
    freeze(network);
    const auto replica = sharded(network, make_mesh(rank));
    MULTIPROC_CHECK(testing_support::train(*replica, network, 0) == testing_support::train(*single, alone, 0));
    for (const auto& entry : replica->named_parameters()) {
      const at::Tensor whole = alone->named_parameters()[entry.key()];
      MULTIPROC_CHECK(entry.value().requires_grad() == whole.requires_grad());
      MULTIPROC_CHECK(torch::equal(entry.value(), replica->part_of(entry.key(), whole)));
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// Two blocks with one weight in common, registered in both.
struct SharingImpl : torch::nn::Module {
  explicit SharingImpl(at::Tensor common) { weight = register_parameter("weight", std::move(common)); }
  at::Tensor forward(const at::Tensor& input) { return torch::tanh(torch::linear(input, weight)); }
  at::Tensor weight;
};
TORCH_MODULE(Sharing);

torch::nn::Sequential sharing_network() {
  torch::manual_seed(5);
  const at::Tensor common = torch::randn({5, 5});
  return torch::nn::Sequential(Sharing(common), torch::nn::Linear(5, 5), Sharing(common), torch::nn::Linear(5, 1));
}

std::vector<double> train_sequential(Replica& replica, torch::nn::Sequential& network) {
  const auto optimizer = testing_support::make_adam(replica);
  std::vector<double> losses;
  for (int i = 0; i < 5; ++i) {
    replica.zero_grad();
    const at::Tensor loss = replica.forward([&] { return network->forward(torch::ones({2, 5})).square().sum(); });
    loss.backward();
    optimizer->step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

TEST(Fsdp, AParameterThatTwoBlocksShareIsOneAndGetsBothGradients) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    torch::nn::Sequential alone = sharing_network();
    const auto names = alone->named_parameters();
    // One optimizer entry for the shared weight: Adam would otherwise step it twice.
    std::vector<double> expected;
    {
      auto mesh = process_group::Mesh{};
      auto single = ShardedReplica::create(alone.ptr(), mesh, {});
      MULTIPROC_CHECK(single.has_value());
      expected = train_sequential(**single, alone);
    }
    torch::nn::Sequential network = sharing_network();
    auto replica = ShardedReplica::create(network.ptr(), make_mesh(rank), {});
    MULTIPROC_CHECK(replica.has_value());
    MULTIPROC_CHECK((*replica)->named_parameters().size() == names.size() - 1);
    MULTIPROC_CHECK((*replica)->sharded().shard("2.weight").is_same((*replica)->sharded().shard("0.weight")));
    MULTIPROC_CHECK(train_sequential(**replica, network) == expected);
    MULTIPROC_CHECK(expected.back() < expected.front());
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Fsdp, ParametersOutsideTheLossGetAGradientOfZero) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    Network network = make_network();
    const auto replica = sharded(network, make_mesh(rank));
    replica->zero_grad();
    replica->forward([&] {
             return network->blocks->forward(network->stem(torch::ones({1, 3, 6, 6}))).sum();
           })
        .backward();
    const auto shards = replica->named_parameters();
    MULTIPROC_CHECK(shards["head.weight"].grad().eq(0).all().item<bool>());
    MULTIPROC_CHECK(shards["stem.weight"].grad().ne(0).any().item<bool>());
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Fsdp, EvaluationNeedsNoGradientAndLeavesNothingWhole) {
  const std::vector<RankResult> ranks = spawn(3, [](Rank& rank) {
    const at::Tensor images = torch::ones({2, 3, 6, 6});
    Network alone = make_network();
    Network network = make_network();
    const auto replica = sharded(network, make_mesh(rank));
    alone->eval();
    network->eval();
    for (int i = 0; i < 2; ++i) {
      const at::Tensor outputs = replica->evaluate([&] { return network->forward(images); });
      MULTIPROC_CHECK(torch::equal(outputs, alone->forward(images)));
      MULTIPROC_CHECK(!outputs.requires_grad());
      MULTIPROC_CHECK(replica->sharded().counters().whole_bytes == 0);
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Fsdp, ARankKilledInTheMiddleOfTrainingEndsTheOthersWithAnException) {
  const std::vector<RankResult> ranks = spawn(3, [](Rank& rank) {
    const process_group::Mesh mesh = make_mesh(rank);
    Network network = make_network();
    const auto replica = sharded(network, mesh);
    const auto optimizer = testing_support::make_adam(*replica);
    for (int i = 0; i < 1000; ++i) {
      if (rank.rank == 2 && i == 3) {
        raise(SIGKILL);
      }
      const Result<void> trained =
          process_group::guard_collective(mesh.world, [&] { step(*replica, network, *optimizer, rank.rank); });
      if (!trained) {
        MULTIPROC_CHECK(i == 3 && trained.error().exit_code == ExitCode::Unavailable);
        return;
      }
    }
    throw std::runtime_error("trained on without rank 2");
  });
  EXPECT_TRUE(ranks[0].succeeded() && ranks[1].succeeded()) << report(ranks);
  EXPECT_EQ(ranks[2].signal, SIGKILL);
}

TEST(Fsdp, DegreesThatDoNotFitAreTold) {
  using process_group::complete;
  EXPECT_EQ(complete({}, 6)->shard_degree, 6U);
  EXPECT_EQ(complete({.shard_degree = 2}, 6)->replicate_degree, 3U);
  EXPECT_EQ(complete({.replicate_degree = 2}, 6)->shard_degree, 3U);
  EXPECT_FALSE(complete({.shard_degree = 4}, 6).has_value());
  EXPECT_FALSE(complete({.shard_degree = 2, .replicate_degree = 2}, 6).has_value());
  EXPECT_FALSE(complete({.reshard_degree = 4}, 6).has_value());
  EXPECT_TRUE(complete({.reshard_degree = 3}, 6).has_value());
}

}  // namespace
}  // namespace rollcall::parallel
