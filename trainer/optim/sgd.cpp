#include "trainer/optim/optimizer_kind.h"

namespace rollcall::optim {
namespace {

using torch::optim::SGD;
using torch::optim::SGDOptions;
using torch::optim::SGDParamState;

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

bool made(const torch::optim::Optimizer& optimizer) { return dynamic_cast<const SGD*>(&optimizer) != nullptr; }

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

void save_state(const torch::optim::OptimizerParamState& state, const StateSink& sink) {
  const at::Tensor& momentum = dynamic_cast<const SGDParamState&>(state).momentum_buffer();
  if (momentum.defined()) {
    sink.tensor("momentum_buffer", momentum);
  }
}

std::unique_ptr<torch::optim::OptimizerParamState> load_state(const StateSource& source) {
  const at::Tensor momentum = source.tensor("momentum_buffer");
  if (!momentum.defined()) {
    return nullptr;
  }
  auto state = std::make_unique<SGDParamState>();
  state->momentum_buffer(momentum);
  return state;
}

void step_group(torch::optim::Optimizer& optimizer, torch::optim::OptimizerParamGroup& group,
                const StepOnDevice& step) {
  const auto& options = dynamic_cast<const SGDOptions&>(group.options());
  std::vector<at::Tensor> parameters = with_gradients(group);
  if (parameters.empty()) {
    return;
  }
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> momenta;
  for (const at::Tensor& parameter : parameters) {
    gradients.push_back(parameter.grad());
    if (options.momentum() == 0) {
      continue;
    }
    auto& state = state_for<SGDParamState>(optimizer, parameter);
    if (!state.momentum_buffer()
             .defined()) {  // zeros: the operator's own first step would leave it unset where it is none
      state.momentum_buffer(torch::zeros_like(parameter));
    }
    momenta.push_back(state.momentum_buffer());
  }
  at::_fused_sgd_(parameters, gradients, momenta, options.weight_decay(), options.momentum(), step.learning_rate,
                  options.dampening(), options.nesterov(), /*maximize=*/false, /*is_first_step=*/false, {},
                  step.non_finite);
}

void step_on_device(torch::optim::Optimizer& optimizer, const StepOnDevice& step) {
  for (torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    step_group(optimizer, group, step);
  }
}

void count_steps(torch::optim::OptimizerParamState& /*state*/, int /*steps*/) {}

}  // namespace

const OptimizerKind kSgd{.python_name = "SGD",
                         .check = check,
                         .make = make,
                         .made = made,
                         .to_json = to_json,
                         .from_json = from_json,
                         .save_state = save_state,
                         .load_state = load_state,
                         .step_on_device = step_on_device,
                         .count_steps = count_steps};

}  // namespace rollcall::optim
