#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "trainer/model/batch_norm.h"
#include "trainer/model/resnet.h"
#include "trainer/model/state.h"

namespace rollcall::model {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

/// Statistics that are not shared: those of this batch alone, as in LibTorch.
class Alone final : public StatisticsRanks {
 public:
  at::Tensor gather(const at::Tensor& mine) override { return mine.unsqueeze(0); }
  void add_up(at::Tensor& /*sums*/) override {}
};

void use_own_statistics(torch::nn::Module& module) {
  for (const std::shared_ptr<torch::nn::Module>& child : module.modules()) {
    if (auto* const batch_norm = child->as<BatchNormImpl>()) {
      batch_norm->share_statistics(c10::make_intrusive<Alone>());
    }
  }
}

struct Answer {
  at::Tensor y, x_gradient, shortcut_gradient, weight_gradient, bias_gradient, mean, variance;
};

struct Case {
  std::int64_t images, channels, size;
  at::ScalarType type = at::kFloat;
};

/// One forward and backward; in float64 LibTorch computes, and that is what others are compared with.
Answer run(const Case& wanted, Epilogue epilogue, at::ScalarType type, bool shared) {
  at::manual_seed(7);
  const std::vector<std::int64_t> sizes{wanted.images, wanted.channels, wanted.size, wanted.size};
  const auto draw = [&](double mean) {
    return (torch::randn(sizes) + mean).to(wanted.type).to(type).contiguous(kChannelsLast).detach();
  };
  BatchNorm layer(wanted.channels);
  {
    const torch::NoGradGuard no_grad;
    layer->weight.uniform_(0.5, 1.5);
    layer->bias.uniform_(-1, 1);
  }
  const at::Tensor x = draw(2).requires_grad_();
  const at::Tensor shortcut = draw(0).requires_grad_();
  const at::Tensor gradient = draw(0.2);
  if (type == at::kDouble) {
    layer->to(at::kDouble);
  }
  if (shared) {
    use_own_statistics(*layer);
  }
  const at::Tensor y = epilogue == Epilogue::None   ? layer->forward(x)
                       : epilogue == Epilogue::Relu ? layer->relu(x)
                                                    : layer->add_relu(x, shortcut);
  y.backward(gradient);
  return {y.detach(),           x.grad(),           epilogue == Epilogue::AddRelu ? shortcut.grad() : at::Tensor(),
          layer->weight.grad(), layer->bias.grad(), layer->running_mean,
          layer->running_var};
}

/// The largest difference, in units of the expected tensor's largest value.
double error(const at::Tensor& ours, const at::Tensor& exact) {
  return ((ours.to(at::kDouble) - exact).abs().max() / exact.abs().max()).item<double>();
}

void expect_close(const Answer& ours, const Answer& exact, double tolerance) {
  // A value that rounding moves over the ReLU's edge takes its whole gradient with it: hardly any may.
  const at::Tensor moved = ours.y.gt(0).ne(exact.y.gt(0));
  EXPECT_LE(moved.sum().item<std::int64_t>(), 1 + moved.numel() / 1000);
  const at::Tensor same = moved.logical_not();
  EXPECT_LT(error(ours.y, exact.y), tolerance);
  EXPECT_LT(error(ours.x_gradient * same, exact.x_gradient * same), 4 * tolerance);
  if (exact.shortcut_gradient.defined()) {
    EXPECT_LT(error(ours.shortcut_gradient * same, exact.shortcut_gradient * same), tolerance);
  }
  EXPECT_LT(error(ours.weight_gradient, exact.weight_gradient), 10 * tolerance);
  EXPECT_LT(error(ours.bias_gradient, exact.bias_gradient), 10 * tolerance);
  EXPECT_LT(error(ours.mean, exact.mean), tolerance);
  EXPECT_LT(error(ours.variance, exact.variance), tolerance);
}

TEST(SharedBatchNorm, MatchesLibTorchWithinRounding) {
  // Channels below, at and beyond a vector; rows that no block divides.
  for (const Case& wanted : {Case{2, 1, 3}, Case{3, 5, 7}, Case{2, 16, 9}, Case{4, 67, 13}, Case{2, 2048, 2}}) {
    for (const Epilogue epilogue : {Epilogue::None, Epilogue::Relu, Epilogue::AddRelu}) {
      SCOPED_TRACE(std::to_string(wanted.channels) + " channels, epilogue " +
                   std::to_string(static_cast<int>(epilogue)));
      expect_close(run(wanted, epilogue, at::kFloat, true), run(wanted, epilogue, at::kDouble, false), 2e-6);
    }
  }
}

TEST(SharedBatchNorm, MatchesLibTorchReproduciblyOnAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  // Fewer parts than threads, and as many of which the last one is smaller.
  for (const Case& wanted : {Case{3, 256, 9}, Case{5, 256, 17}}) {
    const Answer exact = run(wanted, Epilogue::AddRelu, at::kDouble, false);
    for (const int threads : {2, 3, 7}) {
      SCOPED_TRACE(std::to_string(threads) + " threads");
      at::set_num_threads(threads);
      const Answer ours = run(wanted, Epilogue::AddRelu, at::kFloat, true);
      expect_close(ours, exact, 2e-6);
      const Answer again = run(wanted, Epilogue::AddRelu, at::kFloat, true);
      EXPECT_TRUE(ours.y.equal(again.y) && ours.x_gradient.equal(again.x_gradient) &&
                  ours.weight_gradient.equal(again.weight_gradient));
    }
  }
  at::set_num_threads(before);
}

TEST(SharedBatchNorm, ComputesBfloat16InFloat32) {
  const Case wanted{3, 33, 8, at::kBFloat16};
  for (const Epilogue epilogue : {Epilogue::None, Epilogue::Relu, Epilogue::AddRelu}) {
    const Answer ours = run(wanted, epilogue, at::kBFloat16, true);
    EXPECT_EQ(ours.y.scalar_type(), at::kBFloat16);
    EXPECT_EQ(ours.weight_gradient.scalar_type(), at::kFloat);
    expect_close(ours, run(wanted, epilogue, at::kDouble, false), 0.01);
  }
}

TEST(SharedBatchNorm, EvaluatesLikeLibTorch) {
  const torch::NoGradGuard no_grad;
  BatchNorm layer(5);
  layer->running_mean.uniform_(-1, 1);
  layer->running_var.uniform_(0.5, 2);
  layer->eval();
  const at::Tensor x = torch::randn({2, 5, 4, 4}).contiguous(kChannelsLast);
  const at::Tensor alone = layer->add_relu(x, x);
  use_own_statistics(*layer);
  EXPECT_TRUE(torch::equal(layer->add_relu(x, x), alone));
}

TEST(SharedBatchNorm, PropagatesNan) {
  BatchNorm layer(3);
  use_own_statistics(*layer);
  at::Tensor x = torch::randn({2, 3, 4, 4}).contiguous(kChannelsLast);
  x[0][1][0][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(layer->relu(x).select(1, 1).isnan().all().item<bool>());
  EXPECT_FALSE(layer->relu(x).select(1, 0).isnan().any().item<bool>());
}

TEST(SharedBatchNorm, DoesNotModifyTheIncomingGradient) {
  BatchNorm layer(4);
  use_own_statistics(*layer);
  const at::Tensor x = torch::randn({2, 4, 5, 5}).contiguous(kChannelsLast).requires_grad_();
  const at::Tensor gradient = torch::randn({2, 4, 5, 5}).contiguous(kChannelsLast);
  const at::Tensor before = gradient.clone();
  layer->add_relu(x, x).backward(gradient);
  EXPECT_TRUE(torch::equal(gradient, before));
}

TEST(SharedBatchNorm, KeepsStateAndLossesOfAResNet) {
  std::vector<std::vector<double>> losses;
  for (const bool shared : {false, true}) {
    torch::manual_seed(3);
    ResNet network = *make_model("resnet18", {.num_classes = 10});
    use_channels_last(*network);
    if (shared) {
      use_own_statistics(*network);
    }
    const at::Tensor images = torch::randn({4, 3, 64, 64}).contiguous(kChannelsLast);
    const at::Tensor labels = torch::tensor({1, 2, 3, 4}, at::kLong);
    torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.01));
    losses.emplace_back();
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      const at::Tensor loss = torch::cross_entropy_loss(network->forward(images), labels);
      loss.backward();
      optimizer.step();
      losses.back().push_back(loss.item<double>());
    }
    EXPECT_EQ(state_keys(*network).size(), 122U);
  }
  for (std::size_t i = 0; i < losses[0].size(); ++i) {
    EXPECT_NEAR(losses[1][i], losses[0][i], 1e-3 * losses[0][i]);
  }
}

}  // namespace
}  // namespace rollcall::model
