#include "trainer/optim/optimizer_kind.h"

namespace rollcall::optim {
namespace {

using torch::optim::SGD;
using torch::optim::SGDOptions;

Result<void> check(const OptimizerOptions& options) {
  RETURN_IF_ERROR(check_momentum(options));
  if (options.nesterov && options.momentum == 0) {
    return fail("--nesterov", "on", "needs a momentum above 0", "--momentum=0.9 or --nesterov=off");
  }
  return {};
}

std::unique_ptr<torch::optim::Optimizer> make(const OptimizerOptions& options, const NamedParameters& parameters) {
  return make_with_groups<SGD>(parameters, options, [&](double weight_decay) {
    return SGDOptions(options.learning_rate)
        .momentum(options.momentum)
        .nesterov(options.nesterov)
        .weight_decay(weight_decay);
  });
}

nlohmann::ordered_json to_json(const torch::optim::OptimizerOptions& options) {
  const auto& sgd = dynamic_cast<const SGDOptions&>(options);
  return {{"lr", as_written(sgd.lr())},
          {"momentum", sgd.momentum()},
          {"dampening", sgd.dampening()},
          {"weight_decay", sgd.weight_decay()},
          {"nesterov", sgd.nesterov()}};
}

std::unique_ptr<torch::optim::OptimizerOptions> from_json(const nlohmann::json& json) {
  auto options = std::make_unique<SGDOptions>(json.at("lr").get<double>());
  options->momentum(json.at("momentum").get<double>());
  options->dampening(json.at("dampening").get<double>());
  options->weight_decay(json.at("weight_decay").get<double>());
  options->nesterov(json.at("nesterov").get<bool>());
  return options;
}

void step_on_device(torch::optim::Optimizer& optimizer, const StepOnDevice& step) {
  for (std::size_t i = 0; i < step.rates.size(); ++i) {
    const torch::optim::OptimizerParamGroup& group = optimizer.param_groups()[i];
    const auto& options = dynamic_cast<const SGDOptions&>(group.options());
    // Zeros at first: the operator's own first step would leave the momentum unset where it is none.
    GroupTensors all = kMomentumState.group(optimizer, group, options.momentum() == 0 ? 0 : 1);
    if (!all.parameters.empty()) {
      at::_fused_sgd_(all.parameters, all.gradients, all.states[0], options.weight_decay(), options.momentum(),
                      step.rates[i], options.dampening(), options.nesterov(), /*maximize=*/false,
                      /*is_first_step=*/false, {}, step.non_finite);
    }
  }
}

}  // namespace

const OptimizerKind kSgd{.python_name = "SGD",
                         .state = kMomentumState,
                         .check = check,
                         .make = make,
                         .made = is_a<SGD>,
                         .to_json = to_json,
                         .from_json = from_json,
                         .step_on_device = step_on_device};

}  // namespace rollcall::optim
