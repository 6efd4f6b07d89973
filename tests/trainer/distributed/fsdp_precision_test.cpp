// Sharded training in other types than float32, against the same arithmetic written out for a single process.

#include <gtest/gtest.h>
#include <cmath>

#include "tests/trainer/distributed/fsdp_network.h"
#include "trainer/device/amx.h"

namespace rollcall::parallel {
namespace {

using testing_support::all_succeeded;
using testing_support::batch_loss;
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

const torch::optim::AdamOptions kAdam(1e-2);

/// Ten steps whose gradients pass through `type`.
std::vector<double> train_with_rounded_gradients(at::ScalarType type) {
  Network network = make_network();
  torch::optim::Adam optimizer(network->parameters(), kAdam);
  std::vector<double> losses;
  for (std::int64_t step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = batch_loss(network, step, 0);
    loss.backward();
    for (at::Tensor& parameter : network->parameters()) {
      parameter.mutable_grad() = parameter.grad().to(type).to(at::kFloat);
    }
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

TEST(FsdpPrecision, GradientsAreReducedInTheReduceTypeAndAccumulatedInFloat32) {
  const std::vector<RankResult> ranks = spawn(4, [](Rank& rank) {
    const process_group::Mesh mesh = make_mesh(rank);
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      Network network = make_network();
      fsdp::Options options{.alone_from_bytes = 1};
      options.reduce_type = type;
      const auto replica = sharded(network, mesh, options);
      MULTIPROC_CHECK(train(*replica, network, 0) == train_with_rounded_gradients(type));
      const fsdp::Counters& counters = replica->sharded().counters();
      MULTIPROC_CHECK(counters.scattered_bytes < counters.gathered_bytes / 2);  // half as wide, and gathered twice
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// Ten steps of a network in bfloat16 beside parameters in float32, which alone are updated.
std::vector<double> train_beside_masters(const NetworkOptions& options) {
  Network network = make_network(options);
  std::vector<at::Tensor> masters;
  for (const at::Tensor& parameter : network->parameters()) {
    masters.push_back(parameter.detach().clone().requires_grad_());
  }
  network->to(at::kBFloat16);
  torch::optim::Adam optimizer(masters, kAdam);
  std::vector<double> losses;
  for (std::int64_t step = 0; step < 10; ++step) {
    const at::Tensor loss = batch_loss(network, step, 0);
    loss.backward();
    std::vector<at::Tensor> parameters = network->parameters();
    for (std::size_t i = 0; i < masters.size(); ++i) {
      masters[i].mutable_grad() = parameters[i].grad().to(at::kFloat);
      parameters[i].mutable_grad().reset();
    }
    optimizer.step();
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < masters.size(); ++i) {
      parameters[i].copy_(masters[i]);
    }
    losses.push_back(loss.item<double>());
  }
  return losses;
}

TEST(FsdpPrecision, ParametersComputeInTheirTypeAndAreUpdatedInFloat32) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    device::avoid_unusable_amx();
    const NetworkOptions kind{.batch_norm = false};
    Network network = make_network(kind);
    fsdp::Options options{.alone_from_bytes = 1};
    options.parameter_type = at::kBFloat16;
    const auto replica = sharded(network, make_mesh(rank), options);
    MULTIPROC_CHECK(train(*replica, network, 0) == train_beside_masters(kind));
    for (const auto& entry : replica->named_parameters()) {
      MULTIPROC_CHECK(entry.value().scalar_type() == at::kFloat);
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(FsdpPrecision, BatchNormsStayInFloat32) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    device::avoid_unusable_amx();
    Network network = make_network();
    fsdp::Options options{.alone_from_bytes = 1};
    options.parameter_type = at::kBFloat16;
    const auto replica = sharded(network, make_mesh(rank), options);
    const std::vector<double> losses = train(*replica, network, 0);
    const auto parameters = network->named_parameters();
    MULTIPROC_CHECK(parameters["blocks.0.norm.weight"].scalar_type() == at::kFloat);
    MULTIPROC_CHECK(parameters["blocks.0.conv.weight"].scalar_type() == at::kBFloat16);
    MULTIPROC_CHECK(std::abs(losses[0] - train_alone({}, 0)[0]) < 0.05);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::parallel
