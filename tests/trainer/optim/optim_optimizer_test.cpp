#include "trainer/optim/optimizer.h"

#include <gtest/gtest.h>
#include <cmath>
#include <functional>
#include <map>

#include "trainer/optim/optimizer_kind.h"

namespace rollcall::optim {
namespace {

torch::OrderedDict<std::string, at::Tensor> weight_and_bias() {
  torch::OrderedDict<std::string, at::Tensor> parameters;
  parameters.insert("weight", torch::full({2, 2}, 1.0).requires_grad_());
  parameters.insert("bias", torch::full({2}, 1.0).requires_grad_());
  return parameters;
}

void give_gradient(torch::OrderedDict<std::string, at::Tensor>& parameters, double value) {
  for (auto& parameter : parameters) {
    parameter.value().mutable_grad() = torch::full_like(parameter.value(), value);
  }
}

double first(const at::Tensor& tensor) { return tensor.flatten()[0].item<double>(); }

TEST(Optimizer, SgdFollowsItsRecurrenceWithMomentumAndDecayOfWeightsOnly) {
  for (const bool nesterov : {false, true}) {
    const OptimizerOptions options{.name = "sgd", .learning_rate = 0.1, .weight_decay = 0.5, .nesterov = nesterov};
    for (const auto& [name, decay] : {std::pair{"weight", 0.5}, std::pair{"bias", 0.0}}) {
      double value = 1;
      double velocity = 0;
      auto parameters = weight_and_bias();
      const auto optimizer = make_optimizer(options, parameters);
      ASSERT_TRUE(optimizer.has_value());
      for (int step = 0; step < 3; ++step) {
        give_gradient(parameters, 2);
        (*optimizer)->step();
        const double gradient = 2 + decay * value;
        velocity = 0.9 * velocity + gradient;
        value -= 0.1 * (nesterov ? gradient + 0.9 * velocity : velocity);
        EXPECT_NEAR(first(parameters[name]), value, 1e-6) << name << " step " << step << " nesterov " << nesterov;
      }
    }
  }
}

TEST(Optimizer, AdamWDecaysWeightsButNotBiases) {
  auto parameters = weight_and_bias();
  const auto optimizer = make_optimizer({.learning_rate = 0.1, .weight_decay = 0.5}, parameters);
  ASSERT_TRUE(optimizer.has_value());
  give_gradient(parameters, 0);
  (*optimizer)->step();
  EXPECT_NEAR(first(parameters["weight"]), 1 - 0.1 * 0.5, 1e-6);
  EXPECT_EQ(first(parameters["bias"]), 1);
}

TEST(Optimizer, DecayAllDecaysBiasesToo) {
  // LAMB makes an update as long as the weights; RMSprop divides one by the root of (1 - alpha) times its square.
  const std::map<std::string_view, double> step = {{"lamb", 0.1}, {"rmsprop", 1}};
  for (const auto& [name, kind] : kOptimizers) {
    auto parameters = weight_and_bias();
    const auto optimizer = make_optimizer(
        {.name = std::string(name), .learning_rate = 0.1, .weight_decay = 0.5, .decay_all = true}, parameters);
    ASSERT_TRUE(optimizer.has_value());
    EXPECT_EQ((*optimizer)->param_groups().size(), 2U);  // as without it, so that a checkpoint fits
    give_gradient(parameters, 0);
    (*optimizer)->step();
    EXPECT_NEAR(first(parameters["bias"]), 1 - (step.contains(name) ? step.at(name) : 0.1 * 0.5), 1e-6) << name;
  }
}

TEST(Optimizer, EachFactorOfTheRateHasGroupsOfItsOwn) {
  for (const auto& [name, kind] : kOptimizers) {
    auto parameters = weight_and_bias();
    parameters.insert("head.weight", torch::full({2, 2}, 1.0).requires_grad_());
    const OptimizerOptions options{
        .name = std::string(name), .learning_rate = 0.1, .weight_decay = 0, .rate_factors = {{"head.weight", 0.5}}};
    const auto optimizer = make_optimizer(options, parameters);
    ASSERT_TRUE(optimizer.has_value());
    EXPECT_EQ(rate_factors_of_groups(options, parameters), (std::vector<double>{1, 1, 0.5}));
    set_learning_rate(**optimizer, 0.2, rate_factors_of_groups(options, parameters));
    give_gradient(parameters, 2);
    (*optimizer)->step();
    const double moved = 1 - first(parameters["weight"]);
    EXPECT_GT(moved, 0.1) << name;
    EXPECT_NEAR(1 - first(parameters["head.weight"]), 0.5 * moved, 1e-6) << name;
  }
}

/// Numbers of a weight and a bias of equal elements, whose norms are 2 and sqrt(2) times an element.
TEST(Optimizer, LarsFollowsItsRecurrence) {
  auto parameters = weight_and_bias();
  const auto optimizer =
      make_optimizer({.name = "lars", .learning_rate = 0.1, .weight_decay = 0.5, .trust = 0.02}, parameters);
  ASSERT_TRUE(optimizer.has_value());
  double weight = 1;
  double weight_momentum = 0;
  double bias = 1;
  double bias_momentum = 0;
  for (int step = 0; step < 3; ++step) {
    give_gradient(parameters, 2);
    (*optimizer)->step();
    const double ratio = 0.02 * 2 * weight / (2 * 2 + 0.5 * 2 * weight);
    weight_momentum = 0.9 * weight_momentum + ratio * (2 + 0.5 * weight);
    weight -= 0.1 * weight_momentum;
    bias_momentum = 0.9 * bias_momentum + 2;  // without weight decay, and so without a rate of its own
    bias -= 0.1 * bias_momentum;
    EXPECT_NEAR(first(parameters["weight"]), weight, 1e-6) << step;
    EXPECT_NEAR(first(parameters["bias"]), bias, 1e-6) << step;
  }
}

TEST(Optimizer, LambFollowsItsRecurrence) {
  auto parameters = weight_and_bias();
  const auto optimizer = make_optimizer({.name = "lamb", .learning_rate = 0.1, .weight_decay = 0.5}, parameters);
  ASSERT_TRUE(optimizer.has_value());
  double weight = 1;
  double bias = 1;
  for (int step = 0; step < 3; ++step) {
    give_gradient(parameters, 2);
    (*optimizer)->step();
    weight -= 0.1 * weight;  // an update of equal elements becomes the weight, whatever it was
    bias -= 0.1;             // 2 / sqrt(2 * 2)
    EXPECT_NEAR(first(parameters["weight"]), weight, 1e-6) << step;
    EXPECT_NEAR(first(parameters["bias"]), bias, 1e-6) << step;
  }
}

TEST(Optimizer, NormsAreThoseOfWholeParametersAddedUpOnceAStep) {
  for (const std::string name : {"lars", "lamb"}) {
    torch::manual_seed(1);
    const at::Tensor whole = torch::randn({5, 3});
    const at::Tensor gradient = torch::randn({5, 3});
    std::vector<at::Tensor> outcomes;
    std::vector<at::Tensor> sums;  // of the whole step, then of both parts
    const auto step = [&](std::int64_t first, std::int64_t rows, const std::function<void(at::Tensor&)>& add_up) {
      torch::OrderedDict<std::string, at::Tensor> parameters;
      parameters.insert("weight", whole.narrow(0, first, rows).clone().requires_grad_());
      parameters.insert("bias", torch::ones({rows}).requires_grad_());
      parameters["weight"].mutable_grad() = gradient.narrow(0, first, rows).clone();
      parameters["bias"].mutable_grad() = torch::ones({rows});
      const auto optimizer = make_optimizer(
          {.name = name, .learning_rate = 0.1, .weight_decay = 0.5, .decay_all = true, .add_up = add_up}, parameters);
      (*optimizer)->step();
      outcomes.push_back(parameters["weight"].detach());
    };
    step(0, 5, [&](at::Tensor& mine) { sums.push_back(mine.clone()); });
    for (const auto& [first, rows] : {std::pair{0, 3}, std::pair{3, 2}, std::pair{5, 0}}) {
      step(first, rows, [&](at::Tensor& mine) {
        sums.push_back(mine.clone());
        mine.copy_(sums.front());
      });
    }
    ASSERT_EQ(sums.size(), 4U) << name;  // one message a step, for both groups
    EXPECT_TRUE(torch::allclose(sums[1] + sums[2], sums[0])) << name;
    EXPECT_EQ(sums[3].abs().sum().item<double>(), 0) << name;  // a rank without rows takes part
    EXPECT_TRUE(torch::equal(torch::cat({outcomes[1], outcomes[2]}), outcomes[0])) << name;
  }
}

TEST(Optimizer, LarsAndLambWithoutWeightDecayScaleNothing) {
  for (const std::string name : {"lars", "lamb"}) {
    auto parameters = weight_and_bias();
    const auto optimizer = make_optimizer({.name = name, .learning_rate = 0.1, .weight_decay = 0}, parameters);
    give_gradient(parameters, 2);
    (*optimizer)->step();
    EXPECT_NEAR(first(parameters["weight"]), name == "lars" ? 0.8 : 0.9, 1e-6) << name;
    EXPECT_EQ(first(parameters["weight"]), first(parameters["bias"])) << name;
  }
}

// LibTorch treats a value that equals its default as unset: 0.01 for AdamW, 0 for SGD.
TEST(Optimizer, EachGroupHasItsWeightDecayEvenIfItIsTheDefault) {
  const auto adamw = make_optimizer({.name = "adamw", .weight_decay = 0.01}, weight_and_bias());
  const auto sgd = make_optimizer({.name = "sgd", .weight_decay = 0.01}, weight_and_bias());
  const auto decay = [](const auto& optimizer, std::size_t group, auto kind) {
    using Options = decltype(kind);
    return dynamic_cast<const Options&>((*optimizer)->param_groups().at(group).options()).weight_decay();
  };
  EXPECT_EQ(decay(adamw, 0, torch::optim::AdamWOptions()), 0.01);
  EXPECT_EQ(decay(adamw, 1, torch::optim::AdamWOptions()), 0);
  EXPECT_EQ(decay(sgd, 0, torch::optim::SGDOptions(1)), 0.01);
  EXPECT_EQ(decay(sgd, 1, torch::optim::SGDOptions(1)), 0);
}

TEST(Optimizer, SetLearningRateReachesEveryGroup) {
  for (const auto& [name, kind] : kOptimizers) {
    const auto optimizer = make_optimizer({.name = std::string(name)}, weight_and_bias());
    ASSERT_EQ((*optimizer)->param_groups().size(), 2U);
    set_learning_rate(**optimizer, 0.25);
    for (const auto& group : (*optimizer)->param_groups()) {
      EXPECT_EQ(group.options().get_lr(), 0.25) << name;
    }
  }
}

TEST(Optimizer, LearningRatesAreFloat32AndSavedAsShortDecimals) {
  for (const auto& [name, kind] : kOptimizers) {
    const auto optimizer = make_optimizer({.name = std::string(name)}, weight_and_bias());
    set_learning_rate(**optimizer, 0.004);
    const auto& options = (*optimizer)->param_groups().front().options();
    EXPECT_EQ(options.get_lr(), static_cast<double>(0.004F)) << name;
    EXPECT_EQ(kind->to_json(options).at("lr"), 0.004) << name;
    EXPECT_EQ(kind_of(**optimizer), kind) << name;
  }
}

TEST(Optimizer, AModelWithoutBiasesGetsOneGroup) {
  torch::OrderedDict<std::string, at::Tensor> parameters;
  parameters.insert("weight", torch::ones({2, 2}));
  EXPECT_EQ((*make_optimizer({}, parameters))->param_groups().size(), 1U);
}

TEST(Optimizer, RejectsNumbersOutOfRangeByOption) {
  const std::vector<std::pair<OptimizerOptions, std::string>> table = {
      {{.name = "adam"}, "--optimizer"},
      {{.learning_rate = -1}, "--lr"},
      {{.learning_rate = std::nan("")}, "--lr"},
      {{.weight_decay = -0.1}, "--weight-decay"},
      {{.name = "sgd", .momentum = 1}, "--momentum"},
      {{.name = "sgd", .momentum = 0, .nesterov = true}, "--nesterov"},
      {{.beta1 = 1}, "--adam-beta1"},
      {{.beta2 = -0.1}, "--adam-beta2"},
      {{.eps = -1e-8}, "--adam-eps"},
      {{.name = "lamb", .beta1 = 1}, "--adam-beta1"},
      {{.name = "lars", .momentum = 1}, "--momentum"},
      {{.name = "lars", .trust = -1}, "--lars-trust"},
      {{.name = "rmsprop", .momentum = -0.1}, "--momentum"},
      {{.name = "rmsprop", .eps = -1}, "--adam-eps"},
      {{.name = "rmsprop", .alpha = 1}, "--rmsprop-alpha"},
  };
  for (const auto& [options, setting] : table) {
    const auto optimizer = make_optimizer(options, weight_and_bias());
    ASSERT_FALSE(optimizer.has_value()) << setting;
    EXPECT_EQ(optimizer.error().setting, setting);
  }
}

TEST(LearningRateScaling, FollowsTheNamedRule) {
  EXPECT_DOUBLE_EQ(scaled_learning_rate(0.1, *parse_learning_rate_scaling("linear"), 16), 1.6);
  EXPECT_DOUBLE_EQ(scaled_learning_rate(0.1, *parse_learning_rate_scaling("sqrt"), 16), 0.4);
  EXPECT_DOUBLE_EQ(scaled_learning_rate(0.1, *parse_learning_rate_scaling("none"), 16), 0.1);
  EXPECT_FALSE(parse_learning_rate_scaling("quadratic").has_value());
}

TEST(ScaleOptimParams, FollowsTheSquareRootRule) {
  const auto scaled = scale_optim_params({.learning_rate = 3e-4}, 4);
  ASSERT_TRUE(scaled.has_value());
  EXPECT_DOUBLE_EQ(scaled->learning_rate, 6e-4);
  EXPECT_DOUBLE_EQ(scaled->beta1, 1 - 4 * (1 - 0.9));
  EXPECT_DOUBLE_EQ(scaled->beta2, 1 - 4 * (1 - 0.999));
  EXPECT_DOUBLE_EQ(scaled->eps, 5e-9);
}

TEST(ScaleOptimParams, OneRankChangesNothing) {
  const auto scaled = scale_optim_params({}, 1);
  EXPECT_DOUBLE_EQ(scaled->beta1, 0.9);
  EXPECT_DOUBLE_EQ(scaled->learning_rate, 3e-4);
}

// 1 - 10 (1 - 0.9) is 0 on paper and 2e-16 in floating point.
TEST(ScaleOptimParams, RejectsAWorldSizeAtWhichABetaWouldVanish) {
  EXPECT_TRUE(scale_optim_params({}, 9).has_value());
  for (const std::uint32_t world_size : {10U, 11U, 1000U}) {
    const auto scaled = scale_optim_params({}, world_size);
    ASSERT_FALSE(scaled.has_value()) << world_size;
    EXPECT_EQ(scaled.error().setting, "--adam-beta1");
    EXPECT_NE(scaled.error().action.find("using at most 9 ranks"), std::string::npos) << scaled.error().action;
  }
  EXPECT_EQ(scale_optim_params({.beta1 = 0.9999}, 1000).error().setting, "--adam-beta2");
}

TEST(ScaleOptimParams, IsForAdamWOnly) {
  EXPECT_EQ(scale_optim_params({.name = "sgd"}, 2).error().setting, "--scale-optim-params");
}

}  // namespace
}  // namespace rollcall::optim
