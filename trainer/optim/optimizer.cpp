#include "trainer/optim/optimizer.h"

#include <cmath>
#include <utility>
#include <vector>

namespace rollcall::optim {
namespace {

std::string text(double number) {
  std::string digits = std::to_string(number);
  return digits == "0.000000" && number != 0 ? c10::str(number) : digits;
}

bool non_negative(double number) { return std::isfinite(number) && number >= 0; }
bool is_decay(double number) { return number >= 0 && number < 1; }

Result<void> check_sgd(const OptimizerOptions& options) {
  if (!is_decay(options.momentum)) {
    return fail("--momentum", text(options.momentum), "is outside 0 <= momentum < 1", "0.9");
  }
  if (options.nesterov && options.momentum == 0) {
    return fail("--nesterov", "on", "needs a momentum above 0", "--momentum=0.9, or --nesterov=off");
  }
  return {};
}

Result<void> check_adamw(const OptimizerOptions& options) {
  if (!is_decay(options.beta1)) {
    return fail("--adam-beta1", text(options.beta1), "is outside 0 <= beta < 1", "0.9");
  }
  if (!is_decay(options.beta2)) {
    return fail("--adam-beta2", text(options.beta2), "is outside 0 <= beta < 1", "0.999");
  }
  if (!non_negative(options.eps)) {
    return fail("--adam-eps", text(options.eps), "is negative or not finite", "1e-8");
  }
  return {};
}

Result<void> check(const OptimizerOptions& options) {
  if (options.name != "sgd" && options.name != "adamw") {
    return fail("--optimizer", options.name, "is not a known optimizer", "adamw or sgd");
  }
  if (!non_negative(options.learning_rate)) {
    return fail("--lr", text(options.learning_rate), "is negative or not finite", "a small positive number");
  }
  if (!non_negative(options.weight_decay)) {
    return fail("--weight-decay", text(options.weight_decay), "is negative or not finite",
                "0 or a small positive number");
  }
  return options.name == "sgd" ? check_sgd(options) : check_adamw(options);
}

torch::optim::SGDOptions sgd_options(const OptimizerOptions& options, double weight_decay) {
  return torch::optim::SGDOptions(options.learning_rate)
      .momentum(options.momentum)
      .nesterov(options.nesterov)
      .weight_decay(weight_decay);
}

torch::optim::AdamWOptions adamw_options(const OptimizerOptions& options, double weight_decay) {
  return torch::optim::AdamWOptions(options.learning_rate)
      .betas({options.beta1, options.beta2})
      .eps(options.eps)
      .weight_decay(weight_decay);
}

template <typename MakeOptions>
std::vector<torch::optim::OptimizerParamGroup> param_groups(
    const torch::OrderedDict<std::string, at::Tensor>& parameters, double weight_decay,
    const MakeOptions& make_options) {
  using GroupOptions = std::decay_t<decltype(make_options(0.0))>;
  std::vector<at::Tensor> decayed;
  std::vector<at::Tensor> plain;
  for (const auto& parameter : parameters) {
    (parameter.value().dim() > 1 ? decayed : plain).push_back(parameter.value());
  }
  std::vector<torch::optim::OptimizerParamGroup> groups;
  if (!decayed.empty()) {
    groups.emplace_back(std::move(decayed), std::make_unique<GroupOptions>(make_options(weight_decay)));
  }
  if (!plain.empty()) {
    groups.emplace_back(std::move(plain), std::make_unique<GroupOptions>(make_options(0)));
  }
  return groups;
}

/// An optimizer's constructor takes what a group shares with a default-made Options for not set, and replaces it with
/// its own defaults: AdamW's 0.01 of weight decay would become 0. So the groups' options are set once more.
template <typename Optimizer, typename MakeOptions>
std::unique_ptr<torch::optim::Optimizer> make_of_kind(const torch::OrderedDict<std::string, at::Tensor>& parameters,
                                                      double weight_decay, const MakeOptions& make_options) {
  const auto groups = param_groups(parameters, weight_decay, make_options);
  auto optimizer = std::make_unique<Optimizer>(groups, make_options(0));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    optimizer->param_groups()[i].set_options(groups[i].options().clone());
  }
  return optimizer;
}

/// Rounding leaves 2e-16 of 1 - 10 * (1 - 0.9), which is meant to be 0.
constexpr double kSmallestBeta = 1e-9;

Error beta_too_small(const std::string& setting, double beta, std::uint32_t world_size) {
  const auto most_ranks = static_cast<std::int64_t>(std::ceil(1 / (1 - beta) - kSmallestBeta)) - 1;
  return fail(
      setting, text(beta),
      "--scale-optim-params would make it " + text(1 - world_size * (1 - beta)) + " on " + std::to_string(world_size) +
          " ranks, and it must stay above 0",
      "at most " + std::to_string(most_ranks) + " ranks, a " + setting + " nearer to 1, or --lr-scaling=sqrt instead");
}

}  // namespace

Result<LearningRateScaling> parse_learning_rate_scaling(std::string_view text) {
  if (text == "linear") {
    return LearningRateScaling::Linear;
  }
  if (text == "sqrt") {
    return LearningRateScaling::SquareRoot;
  }
  if (text == "none") {
    return LearningRateScaling::None;
  }
  return fail("--lr-scaling", std::string(text), "is not a known rule", "linear, sqrt or none");
}

double scaled_learning_rate(double learning_rate, LearningRateScaling scaling, std::uint32_t world_size) {
  switch (scaling) {
    case LearningRateScaling::Linear:
      return learning_rate * world_size;
    case LearningRateScaling::SquareRoot:
      return learning_rate * std::sqrt(world_size);
    case LearningRateScaling::None:
      break;
  }
  return learning_rate;
}

Result<OptimizerOptions> scale_optim_params(const OptimizerOptions& options, std::uint32_t world_size) {
  if (options.name != "adamw") {
    return fail("--scale-optim-params", options.name, "the rule is for AdamW only",
                "--optimizer=adamw, or --lr-scaling=linear");
  }
  OptimizerOptions scaled = options;
  scaled.learning_rate = options.learning_rate * std::sqrt(world_size);
  scaled.beta1 = 1 - world_size * (1 - options.beta1);
  scaled.beta2 = 1 - world_size * (1 - options.beta2);
  scaled.eps = options.eps / std::sqrt(world_size);
  if (scaled.beta1 < kSmallestBeta) {
    return beta_too_small("--adam-beta1", options.beta1, world_size);
  }
  if (scaled.beta2 < kSmallestBeta) {
    return beta_too_small("--adam-beta2", options.beta2, world_size);
  }
  return scaled;
}

Result<std::unique_ptr<torch::optim::Optimizer>> make_optimizer(
    const OptimizerOptions& options, const torch::OrderedDict<std::string, at::Tensor>& parameters) {
  if (const Result<void> checked = check(options); !checked) {
    return checked.error();
  }
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (options.name == "sgd") {
    const auto make = [&](double weight_decay) { return sgd_options(options, weight_decay); };
    optimizer = make_of_kind<torch::optim::SGD>(parameters, options.weight_decay, make);
  } else {
    const auto make = [&](double weight_decay) { return adamw_options(options, weight_decay); };
    optimizer = make_of_kind<torch::optim::AdamW>(parameters, options.weight_decay, make);
  }
  return optimizer;
}

void set_learning_rate(torch::optim::Optimizer& optimizer, double learning_rate) {
  for (torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    group.options().set_lr(learning_rate);
  }
}

}  // namespace rollcall::optim
