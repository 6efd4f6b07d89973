#include "trainer/precision/lowered_weights.h"

#include <gtest/gtest.h>

#include <vector>

#include "trainer/device/amx.h"
#include "trainer/model/resnet.h"
#include "trainer/model/state.h"
#include "trainer/precision/autocast.h"

namespace rollcall::precision {
namespace {

/// What steps of two batches each leave: the losses, the gradients of the last one, the parameters, and the outputs of
/// the model after them. A part of the model is not trained.
std::vector<at::Tensor> trained(at::ScalarType type, bool at_once) {
  torch::manual_seed(2);
  model::ResNet network = *model::make_model("resnet20", {.num_classes = 4});
  model::use_channels_last(*network);
  for (auto& parameter : network->named_parameters()) {
    parameter.value().requires_grad_(!parameter.key().starts_with("layer2"));
  }
  LoweredWeights lowered = at_once ? LoweredWeights(*network, type) : LoweredWeights();
  const at::Tensor images = torch::randn({2, 4, 3, 16, 16});
  const at::Tensor labels = torch::arange(4, at::kLong);
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
  std::vector<at::Tensor> found;
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    lowered.refresh();
    for (const std::int64_t batch : {0, 1}) {
      at::Tensor loss;
      {
        const LoweredWeights::Use use(lowered);
        const Autocast autocast(type);
        loss = torch::cross_entropy_loss(network->forward(images[batch]), labels);
      }
      loss.backward();
      found.push_back(loss.detach());
    }
    optimizer.step();
  }
  for (const at::Tensor& parameter : network->parameters()) {
    EXPECT_EQ(parameter.scalar_type(), at::kFloat);
    found.push_back(parameter.grad().defined() ? parameter.grad() : torch::zeros({1}));
    found.push_back(parameter.detach());
  }
  network->eval();
  const torch::NoGradGuard no_grad;
  const Autocast autocast(type);
  found.push_back(network->forward(images[0]));
  return found;
}

TEST(LoweredWeights, TrainWithTheBitsOfAutocast) {
  device::avoid_unusable_amx();
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    if (const Result<void> usable = check_operators(type); !usable) {
      GTEST_SKIP() << usable.error().message();
    }
    const std::vector<at::Tensor> one_by_one = trained(type, false);
    const std::vector<at::Tensor> at_once = trained(type, true);
    ASSERT_EQ(one_by_one.size(), at_once.size());
    for (std::size_t i = 0; i < at_once.size(); ++i) {
      EXPECT_TRUE(torch::equal(one_by_one[i], at_once[i])) << i;
    }
    EXPECT_FALSE(torch::equal(at_once[0], at_once[2]));
  }
}

TEST(LoweredWeights, AreTheLayersOwnDuringUseOnly) {
  torch::nn::Linear layer(4, 2);
  LoweredWeights lowered(*layer, at::kBFloat16);
  lowered.refresh();
  const at::Tensor weight = layer->weight;
  {
    const LoweredWeights::Use use(lowered);
    EXPECT_TRUE(torch::equal(layer->weight, weight.to(at::kBFloat16)));
    EXPECT_EQ(layer->bias.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(layer->parameters().front().is_same(weight));
  }
  EXPECT_TRUE(layer->weight.is_same(weight));
  EXPECT_EQ(layer->bias.scalar_type(), at::kFloat);
}

/// Rather than wrong gradients.
TEST(LoweredWeights, ThatAreRefreshedBeforeTheBackwardPassAreAnError) {
  torch::nn::Linear layer(4, 2);
  LoweredWeights lowered(*layer, at::kBFloat16);
  lowered.refresh();
  const at::Tensor x = torch::ones({3, 4}, at::kBFloat16).requires_grad_();
  at::Tensor sum;
  {
    const LoweredWeights::Use use(lowered);
    sum = layer->forward(x).sum();
  }
  lowered.refresh();
  EXPECT_THROW(sum.backward(), c10::Error);
}

}  // namespace
}  // namespace rollcall::precision
