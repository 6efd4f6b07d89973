#include "trainer/optim/optimizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/optim/optimizer_kind.h"

namespace rollcall::optim {
namespace {

Result<const OptimizerKind*> checked_kind(const OptimizerOptions& options) {
  const auto* const named = std::ranges::find(kOptimizers, options.name, &NamedKind::name);
  if (named == kOptimizers.end()) {
    return fail("--optimizer", options.name, "is not a known optimizer", "rollcall-train --help");
  }
  if (!is_non_negative(options.learning_rate)) {
    return fail("--lr", number_text(options.learning_rate), "must be finite and not negative", "--lr=0.001");
  }
  if (!is_non_negative(options.weight_decay)) {
    return fail("--weight-decay", number_text(options.weight_decay), "must be finite and not negative",
                "--weight-decay=0");
  }
  RETURN_IF_ERROR(named->kind->check(options));
  return named->kind;
}

/// Rounding leaves 2e-16 of 1 - 10 * (1 - 0.9), which is meant to be 0.
constexpr double kSmallestBeta = 1e-9;

Error beta_too_small(const std::string& setting, double beta, std::uint32_t world_size) {
  const auto most_ranks = static_cast<std::int64_t>(std::ceil(1 / (1 - beta) - kSmallestBeta)) - 1;
  return fail(
      setting, number_text(beta),
      "--scale-optim-params would make it " + number_text(1 - world_size * (1 - beta)) + " on " +
          std::to_string(world_size) + " ranks, and it must stay above 0",
      "using at most " + counted(most_ranks, "rank") + ", moving " + setting + " nearer to 1, or --lr-scaling=sqrt");
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
  return fail("--lr-scaling", std::string(text), "is not a known rule",
              "--lr-scaling=linear, --lr-scaling=sqrt or --lr-scaling=none");
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
    return fail("--scale-optim-params", options.name, "has no scaling rule; only AdamW has one",
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
  ASSIGN_OR_RETURN(const OptimizerKind* const kind, checked_kind(options));
  return kind->make(options, parameters);
}

Options options_of(const torch::optim::Optimizer& optimizer) {
  Options options;
  for (const torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    options.push_back(group.options().clone());
  }
  return options;
}

void set_options(torch::optim::Optimizer& optimizer, const Options& options) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    optimizer.param_groups()[i].set_options(options[i]->clone());
  }
}

std::vector<double> rate_factors_of_groups(const OptimizerOptions& options,
                                           const torch::OrderedDict<std::string, at::Tensor>& parameters) {
  const std::vector<ParameterGroup> groups = groups_of(parameters, options);
  std::vector<double> factors;
  std::ranges::transform(groups, std::back_inserter(factors), &ParameterGroup::rate_factor);
  return factors;
}

void set_learning_rate(torch::optim::Optimizer& optimizer, double learning_rate, const std::vector<double>& factors) {
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    const double factor = factors.empty() ? 1 : factors[i];
    optimizer.param_groups()[i].options().set_lr(static_cast<float>(learning_rate * factor));
  }
}

const OptimizerKind* kind_of(const torch::optim::Optimizer& optimizer) {
  const auto* const named =
      std::ranges::find_if(kOptimizers, [&](const NamedKind& known) { return known.kind->made(optimizer); });
  return named == kOptimizers.end() ? nullptr : named->kind;
}

std::vector<ParameterGroup> groups_of(const NamedParameters& parameters, const OptimizerOptions& options) {
  std::map<std::pair<double, bool>, std::vector<at::Tensor>, std::greater<>> groups;  // by factor; weights come first
  for (const auto& parameter : parameters) {
    const auto factor = options.rate_factors.find(parameter.key());
    const bool is_weight = parameter.value().dim() > 1;
    groups[{factor == options.rate_factors.end() ? 1 : factor->second, is_weight}].push_back(parameter.value());
  }
  std::vector<ParameterGroup> found;
  for (auto& [key, members] : groups) {
    const auto& [factor, is_weight] = key;
    found.push_back({factor, is_weight || options.decay_all ? options.weight_decay : 0, std::move(members)});
  }
  return found;
}

std::vector<at::Tensor> with_gradients(const torch::optim::OptimizerParamGroup& group) {
  std::vector<at::Tensor> parameters;
  std::ranges::copy_if(group.params(), std::back_inserter(parameters),
                       [](const at::Tensor& parameter) { return parameter.grad().defined() && parameter.numel() > 0; });
  return parameters;
}

std::string number_text(double number) {
  std::string digits = std::to_string(number);
  return digits == "0.000000" && number != 0 ? c10::str(number) : digits;
}

double as_written(double learning_rate) {
  if (static_cast<double>(static_cast<float>(learning_rate)) != learning_rate) {
    return learning_rate;
  }
  std::array<char, 32> text{};  // NOLINT(*-magic-numbers): more than a float32 takes
  const auto written = std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(learning_rate));
  double number = learning_rate;
  std::from_chars(text.data(), written.ptr, number);
  return number;
}

Result<void> check_momentum(const OptimizerOptions& options) {
  return is_decay(options.momentum)
             ? Result<void>()
             : fail("--momentum", number_text(options.momentum), "must be at least 0 and below 1", "--momentum=0.9");
}

bool is_decay(double number) { return number >= 0 && number < 1; }

bool is_non_negative(double number) { return std::isfinite(number) && number >= 0; }

}  // namespace rollcall::optim
