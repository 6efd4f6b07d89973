#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <cmath>
#include <limits>
#include <vector>

#include "trainer/device/amx.h"
#include "trainer/model/resnet.h"
#include "trainer/model/state.h"
#include "trainer/precision/autocast.h"
#include "trainer/precision/loss_scaler.h"

namespace rollcall::precision {
namespace {

TEST(Autocast, ComputesConvolutionsInItsTypeAndRestoresTheState) {
  device::avoid_unusable_amx();
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, 8, 3));
  const at::Tensor x = torch::randn({1, 3, 8, 8});
  {
    const Autocast outer(at::kBFloat16);
    EXPECT_EQ(conv(x).scalar_type(), at::kBFloat16);
    {
      const Autocast none(std::nullopt);
      EXPECT_EQ(conv(x).scalar_type(), at::kBFloat16);
    }
    {
      const Autocast inner(at::kHalf);
      EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kHalf);
    }
    EXPECT_EQ(conv(x).scalar_type(), at::kBFloat16);
    EXPECT_EQ(torch::cross_entropy_loss(conv(x).mean({2, 3}), torch::zeros({1}, at::kLong)).scalar_type(), at::kFloat);
  }
  EXPECT_EQ(conv(x).scalar_type(), at::kFloat);
}

TEST(Autocast, DisablesTheWeightCache) {
  ASSERT_TRUE(at::autocast::is_autocast_cache_enabled());
  {
    const Autocast autocast(at::kBFloat16);
    EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());
  }
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
}

TEST(Autocast, MapsNamesToTypes) {
  EXPECT_EQ(compute_type("bf16"), at::kBFloat16);
  EXPECT_EQ(compute_type("fp16"), at::kHalf);
  EXPECT_EQ(compute_type("fp32"), std::nullopt);
}

TEST(Autocast, CheckOfOperatorsDoesNotChangeTheRandomState) {
  device::avoid_unusable_amx();
  torch::manual_seed(1);
  const Result<void> checked = check_operators(at::kBFloat16);
  EXPECT_TRUE(checked) << checked.error().message();
  const at::Tensor drawn = torch::randn({4});
  torch::manual_seed(1);
  EXPECT_TRUE(torch::equal(drawn, torch::randn({4})));
}

TEST(Autocast, MissingOperatorIsAnErrorWithAdvice) {
  const Result<void> checked = check_operators(at::kComplexFloat);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("--precision"), std::string::npos);
  EXPECT_NE(checked.error().message().find("; try --precision=fp32"), std::string::npos);
}

/// Loss of the first and the last of some steps on one batch.
std::pair<double, double> train(ComputeType type) {
  torch::manual_seed(2);
  model::ResNet network = *model::make_model("resnet20", {.num_classes = 4});
  model::use_channels_last(*network);
  const at::Tensor images = torch::randn({8, 3, 16, 16}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor labels = torch::arange(8, at::kLong).remainder(4);
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
  LossScaler scaler(type == at::kHalf);
  std::vector<double> losses;
  for (int step = 0; step < 12; ++step) {
    optimizer.zero_grad();
    at::Tensor loss;
    {
      const Autocast autocast(type);
      loss = torch::cross_entropy_loss(network->forward(images), labels);
    }
    scaler.scale(loss).backward();
    if (scaler.unscale(optimizer, nullptr)) {
      optimizer.step();
    }
    scaler.update();
    losses.push_back(loss.item<double>());
  }
  return {losses.front(), losses.back()};
}

TEST(MixedPrecision, TrainingReducesTheLoss) {
  device::avoid_unusable_amx();
  const auto [expected, unused] = train(std::nullopt);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    if (const Result<void> usable = check_operators(type); !usable) {
      GTEST_SKIP() << usable.error().message();
    }
    const auto [first, last] = train(type);
    EXPECT_NEAR(first, expected, 0.05 * expected);
    EXPECT_LT(last, first / 2);
  }
}

/// A parameter whose gradients the test writes.
struct Trained {
  at::Tensor parameter = torch::zeros({3}).requires_grad_();
  torch::optim::SGD optimizer{{parameter}, torch::optim::SGDOptions(0.1)};

  void set_gradient(float value) { parameter.mutable_grad() = torch::tensor({1.0F, 2.0F, value}); }
};

TEST(LossScaler, UnscalesHalvesOnOverflowAndDoublesAfter2000GoodSteps) {
  LossScaler scaler(true, {.scale = 4, .good_steps = 1998});
  Trained trained;
  const auto step = [&](float value) {
    trained.set_gradient(value);
    const bool finite = scaler.unscale(trained.optimizer, nullptr);
    scaler.update();
    return finite;
  };
  EXPECT_EQ(scaler.scale(torch::tensor(3.0F)).item<float>(), 12);
  EXPECT_TRUE(step(8));
  EXPECT_TRUE(torch::equal(trained.parameter.grad(), torch::tensor({0.25F, 0.5F, 2.0F})));
  EXPECT_EQ(scaler.state(), (LossScale{.scale = 4, .good_steps = 1999}));
  EXPECT_TRUE(step(8));
  EXPECT_EQ(scaler.state(), (LossScale{.scale = 8, .good_steps = 0}));
  EXPECT_TRUE(step(8));
  EXPECT_FALSE(step(std::numeric_limits<float>::infinity()));
  EXPECT_EQ(scaler.state(), (LossScale{.scale = 4, .good_steps = 0}));
  EXPECT_FALSE(step(std::numeric_limits<float>::quiet_NaN()));
  EXPECT_EQ(scaler.state(), (LossScale{.scale = 2, .good_steps = 0}));
}

TEST(Finite, IsExactEvenIfANormOverflows) {
  const float inf = std::numeric_limits<float>::infinity();
  const at::Tensor good = torch::ones({3, 5});
  const auto with = [&](std::initializer_list<float> numbers) {
    return all_finite({good, torch::tensor(std::vector<float>(numbers)), torch::ones({2}, at::kBFloat16)});
  };
  EXPECT_TRUE(all_finite({}));
  EXPECT_TRUE(with({0, -1}));
  EXPECT_TRUE(with({3e38F, -3e38F}));  // whose squares are not
  EXPECT_FALSE(with({1, inf}));
  EXPECT_FALSE(with({inf, -inf}));
  EXPECT_FALSE(with({std::numeric_limits<float>::quiet_NaN()}));
  EXPECT_TRUE(all_finite({torch::full({4}, 60000, at::kHalf)}));
}

TEST(Finite, NamesTheFirstNonFiniteAndSkipsAbsentAndEmptyGradients) {
  torch::OrderedDict<std::string, at::Tensor> named;
  named.insert("a", torch::ones({2}));
  named.insert("empty", torch::ones({0, 3}));
  EXPECT_EQ(first_not_finite(named), "");
  named.insert("b", torch::full({2}, std::numeric_limits<float>::quiet_NaN()));
  EXPECT_EQ(first_not_finite(named), "b");
  const at::Tensor without = torch::zeros({1}).requires_grad_();
  const at::Tensor shard = torch::zeros({0}).requires_grad_();
  shard.mutable_grad() = torch::zeros({0});
  Trained trained;
  trained.set_gradient(8);
  torch::optim::SGD optimizer({without, shard, trained.parameter}, torch::optim::SGDOptions(0.1));
  EXPECT_EQ(gradients_of(optimizer).size(), 1U);
}

TEST(LossScaler, ChangesNothingIfDisabled) {
  LossScaler scaler(false);
  Trained trained;
  trained.set_gradient(std::numeric_limits<float>::infinity());
  EXPECT_EQ(scaler.scale(torch::tensor(3.0F)).item<float>(), 3);
  EXPECT_TRUE(scaler.unscale(trained.optimizer, nullptr));
  scaler.update();
  EXPECT_EQ(scaler.state(), LossScale{});
}

TEST(LossScaler, AcceptsEmptyShards) {
  LossScaler scaler(true);
  at::Tensor shard = torch::zeros({0, 3}).requires_grad_();
  shard.mutable_grad() = torch::zeros({0, 3});
  torch::optim::SGD optimizer({shard}, torch::optim::SGDOptions(0.1));
  EXPECT_TRUE(scaler.unscale(optimizer, nullptr));
}

}  // namespace
}  // namespace rollcall::precision
