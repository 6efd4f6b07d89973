// Gradients of what is accumulated, frozen, shared or unused.

#include <gtest/gtest.h>
#include <map>

#include "tests/trainer/distributed/fsdp_network.h"

namespace rollcall::parallel {
namespace {

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

TEST(Fsdp, AccumulatedGradientsAreReducedOnceAndEqualTheSum) {
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

TEST(Fsdp, Bfloat16ReductionAccumulatesInFloat32AndRoundsOnce) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    Network alone = make_network();
    for (std::int64_t i = 0; i < 3; ++i) {
      batch_loss(alone, i, 0).backward();
    }
    Network network = make_network();
    fsdp::Options options;
    options.reduce_type = at::kBFloat16;
    const auto replica = sharded(network, make_mesh(rank), options);
    for (std::int64_t i = 0; i < 3; ++i) {
      replica->set_gradient_sync(i == 2);
      replica->forward([&] { return batch_loss(network, i, 0); }).backward();
    }
    for (const auto& entry : replica->named_parameters()) {
      const at::Tensor sum = alone->named_parameters()[entry.key()].grad();
      const at::Tensor expected = sum.to(at::kBFloat16).to(at::kFloat);
      MULTIPROC_CHECK(torch::equal(entry.value().grad(), replica->part_of(entry.key(), expected)));
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

// With accumulation into the shards no whole gradient outlives its micro-batch, at the price of N reductions.
TEST(Fsdp, AccumulationInShardsGivesEqualGradientsWithMoreReductions) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const process_group::Mesh mesh = make_mesh(rank);
    std::map<bool, std::map<std::string, at::Tensor>> gradients;
    for (const bool whole : {true, false}) {
      Network network = make_network();
      fsdp::Options options;
      options.accumulate_whole = whole;
      options.alone_from_bytes = 1;
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

TEST(Fsdp, AParameterSharedByTwoBlocksGetsBothGradients) {
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

TEST(Fsdp, UnusedParametersGetAGradientOfZero) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    Network network = make_network();
    const auto replica = sharded(network, make_mesh(rank));
    const at::Tensor images = torch::ones({1, 3, 6, 6});
    // A step of the whole network first: the memory that gradients travel in holds those of the head then.
    replica->forward([&] { return network->forward(images).sum(); }).backward();
    replica->zero_grad();
    replica->forward([&] { return network->blocks->forward(network->stem(images)).sum(); }).backward();
    const auto shards = replica->named_parameters();
    MULTIPROC_CHECK(shards["head.weight"].grad().eq(0).all().item<bool>());
    MULTIPROC_CHECK(shards["stem.weight"].grad().ne(0).any().item<bool>());
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::parallel
