#include <torch/optim/rmsprop.h>

#include "trainer/optim/optimizer_kind.h"
#include "trainer/optim/step_gate.h"

namespace rollcall::optim {
namespace {

using torch::optim::RMSprop;
using torch::optim::RMSpropOptions;

Result<void> check(const OptimizerOptions& options) {
  if (!is_decay(options.alpha)) {
    return fail("--rmsprop-alpha", number_text(options.alpha), "must be at least 0 and below 1",
                "--rmsprop-alpha=0.99");
  }
  if (!is_non_negative(options.eps)) {
    return fail("--adam-eps", number_text(options.eps), "must be finite and not negative", "--adam-eps=1e-8");
  }
  return check_momentum(options);
}

std::unique_ptr<torch::optim::Optimizer> make(const OptimizerOptions& options, const NamedParameters& parameters) {
  return make_with_groups<RMSprop>(parameters, options, [&](double weight_decay) {
    return RMSpropOptions(options.learning_rate)
        .alpha(options.alpha)
        .eps(options.eps)
        .momentum(options.momentum)
        .weight_decay(weight_decay);
  });
}

nlohmann::ordered_json to_json(const torch::optim::OptimizerOptions& options) {
  const auto& rmsprop = dynamic_cast<const RMSpropOptions&>(options);
  return {{"lr", as_written(rmsprop.lr())}, {"momentum", rmsprop.momentum()}, {"alpha", rmsprop.alpha()},
          {"eps", rmsprop.eps()},           {"centered", rmsprop.centered()}, {"weight_decay", rmsprop.weight_decay()}};
}

std::unique_ptr<torch::optim::OptimizerOptions> from_json(const nlohmann::json& json) {
  auto options = std::make_unique<RMSpropOptions>(json.at("lr").get<double>());
  options->momentum(json.at("momentum").get<double>());
  options->alpha(json.at("alpha").get<double>());
  options->eps(json.at("eps").get<double>());
  options->centered(json.at("centered").get<bool>());
  options->weight_decay(json.at("weight_decay").get<double>());
  return options;
}

/// LibTorch has no fused RMSprop: its arithmetic, as foreach operators.
void step_on_device(torch::optim::Optimizer& optimizer, const StepOnDevice& step) {
  const StepGate gate(step);
  for (std::size_t i = 0; i < step.rates.size(); ++i) {
    const torch::optim::OptimizerParamGroup& group = optimizer.param_groups()[i];
    const auto& options = dynamic_cast<const RMSpropOptions&>(group.options());
    auto [parameters, gradients, states] = kRmsPropState.group(optimizer, group, options.momentum() > 0 ? 2 : 1);
    if (parameters.empty()) {
      continue;
    }
    const std::vector<at::Tensor>& squares = states[0];
    std::vector<at::Tensor>& momenta = states[1];
    gradients =
        options.weight_decay() == 0 ? gradients : at::_foreach_add(gradients, parameters, options.weight_decay());
    gradients = gate.pass(std::move(gradients));
    at::_foreach_mul_(squares, gate.factor(options.alpha()));
    at::_foreach_addcmul_(squares, gradients, gradients, 1 - options.alpha());
    std::vector<at::Tensor> roots = at::_foreach_sqrt(squares);
    at::_foreach_add_(roots, options.eps());
    if (options.momentum() > 0) {
      at::_foreach_mul_(momenta, gate.factor(options.momentum()));
      at::_foreach_addcdiv_(momenta, gradients, roots);
    } else {
      momenta = at::_foreach_div(gradients, roots);
    }
    at::_foreach_add_(parameters, at::_foreach_mul(momenta, gate.minus_rate(i)));
  }
}

}  // namespace

const OptimizerKind kRmsProp{.python_name = "RMSprop",
                             .state = kRmsPropState,
                             .check = check,
                             .make = make,
                             .made = is_a<RMSprop>,
                             .to_json = to_json,
                             .from_json = from_json,
                             .step_on_device = step_on_device};

}  // namespace rollcall::optim
