#include "trainer/distributed/fsdp/fully_shard.h"

#include <gtest/gtest.h>
#include <torch/serialize.h>
#include <map>
#include <sstream>

#include "tests/trainer/distributed/fsdp_network.h"

namespace rollcall::parallel {
namespace {

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

std::string message_of(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
}

// Reading, copying, saving and writing: never a crash, an empty tensor or a silent result.
TEST(Fsdp, UseOfAShardedParameterIsAnErrorNamingIt) {
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
    train_step(*replica, network, *optimizer, rank.rank);  // and training goes on
    MULTIPROC_CHECK(message_of(uses[0]).find("is sharded") != std::string::npos);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Fsdp, KeepsParameterNamesAndTensorsAndShardsByRows) {
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

TEST(Fsdp, GatherRestoresTheParametersAndPartOfGivesTheShards) {
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

TEST(Fsdp, EvaluationUsesNoGradientAndLeavesNothingUnsharded) {
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
      MULTIPROC_CHECK(replica->sharded().counters().unsharded_bytes == 0);
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

// Each rank's statistics are of its own batches until a validation or a checkpoint needs a single model.
TEST(Fsdp, SyncBuffersBroadcastsRankZeroAlsoWithHybridSharding) {
  const std::vector<RankResult> ranks = spawn(4, [](Rank& rank) {
    Network network = make_network();
    const auto replica = sharded(network, make_mesh(rank, {.shard_degree = 2}));
    for (at::Tensor& buffer : network->buffers()) {
      buffer.fill_(10 + static_cast<double>(rank.rank));
    }
    MULTIPROC_CHECK(!network->buffers().empty());
    MULTIPROC_CHECK(replica->sync_buffers().has_value());
    for (const at::Tensor& buffer : network->buffers()) {
      MULTIPROC_CHECK(buffer.eq(10).all().item<bool>());
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Fsdp, ARankKilledDuringTrainingIsAnExceptionOnTheOthers) {
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
          process_group::guard_collective(mesh.world, [&] { train_step(*replica, network, *optimizer, rank.rank); });
      if (!trained) {
        MULTIPROC_CHECK(i == 3 && trained.error().exit_code() == ExitCode::Unavailable);
        return;
      }
    }
    throw std::runtime_error("trained on without rank 2");
  });
  EXPECT_TRUE(ranks[0].succeeded() && ranks[1].succeeded()) << report(ranks);
  EXPECT_EQ(ranks[2].signal, SIGKILL);
}

TEST(Fsdp, CompletesDegreesAndRejectsThoseThatDoNotFit) {
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
