// The norm of a model's gradients, for any distribution of them over ranks, and clipping by it.

#include "trainer/distributed/ddp/replica.h"

#include <gtest/gtest.h>
#include <cmath>

#include "tests/trainer/distributed/fsdp_network.h"

namespace rollcall::parallel {
namespace {

using testing_support::all_succeeded;
using testing_support::data_parallel;
using testing_support::make_mesh;
using testing_support::make_network;
using testing_support::Network;
using testing_support::Rank;
using testing_support::report;
using testing_support::sharded;
using testing_support::spawn;

at::Tensor with_gradient(std::vector<float> values) {
  at::Tensor parameter = torch::zeros({static_cast<std::int64_t>(values.size())}).requires_grad_();
  parameter.mutable_grad() = torch::tensor(values);
  return parameter;
}

TEST(GradientNorm, IsTheNormOfAllGradientsWhichAreScaledToTheLimit) {
  const at::Tensor unused = torch::zeros({2}).requires_grad_();
  const std::vector<at::Tensor> parameters{with_gradient({3, 4}), unused, with_gradient({-12}), with_gradient({})};
  EXPECT_DOUBLE_EQ(clip_grad_norm(parameters, 6.5, nullptr).item<double>(), 13);
  EXPECT_TRUE(torch::allclose(parameters[0].grad(), torch::tensor({1.5F, 2.0F}), 1e-6));
  EXPECT_TRUE(torch::allclose(parameters[2].grad(), torch::tensor({-6.0F}), 1e-6));
  EXPECT_FALSE(unused.grad().defined());
}

TEST(GradientNorm, LeavesGradientsBelowTheLimitUnchanged) {
  const std::vector<at::Tensor> parameters{with_gradient({3, 4})};
  EXPECT_DOUBLE_EQ(clip_grad_norm(parameters, 5.5, nullptr).item<double>(), 5);
  EXPECT_TRUE(torch::equal(parameters[0].grad(), torch::tensor({3.0F, 4.0F})));
}

TEST(GradientNorm, OfAGroupCoversTheGradientsOfAllRanks) {
  const auto ranks = spawn(3, [](Rank& rank) {
    const process_group::Group group = rank.make_group();
    const std::vector<std::vector<float>> of_rank{{3}, {4, 0}, {-12}};
    const std::vector<at::Tensor> mine{with_gradient(of_rank[rank.rank])};
    MULTIPROC_CHECK(clip_grad_norm(mine, 1, group).item<double>() == 13);
    MULTIPROC_CHECK(torch::allclose(mine[0].grad(), torch::tensor(of_rank[rank.rank]) / 13, 1e-6));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// Norm before clipping to a tenth of it, and the gradients after it.
double backward_and_clip(Replica& replica, Network& network) {
  replica.zero_grad();
  replica.forward([&] { return testing_support::batch_loss(network, 0, 0); }).backward();
  return replica.clip_grad_norm(0.01).item<double>();
}

TEST(GradientNorm, DoesNotDependOnTheShardDegree) {
  const auto ranks = spawn(4, [](Rank& rank) {
    Network alone = make_network();
    const double expected = backward_and_clip(*data_parallel(alone, nullptr), alone);
    MULTIPROC_CHECK(expected > 0.1);
    for (const std::uint32_t shard_degree : {4U, 2U, 1U}) {
      Network network = make_network();
      const auto replica = sharded(network, make_mesh(rank, {.shard_degree = shard_degree}));
      MULTIPROC_CHECK(std::abs(backward_and_clip(*replica, network) / expected - 1) < 1e-6);
      for (const auto& entry : replica->named_parameters()) {
        const at::Tensor whole = alone->named_parameters()[entry.key()].grad();
        MULTIPROC_CHECK(torch::allclose(entry.value().grad(), replica->part_of(entry.key(), whole), 1e-5, 1e-8));
      }
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::parallel
