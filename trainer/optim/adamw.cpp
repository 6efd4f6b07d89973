#include "trainer/optim/adam_group.h"
#include "trainer/optim/optimizer_kind.h"

namespace rollcall::optim {
namespace {

using torch::optim::AdamW;
using torch::optim::AdamWOptions;

Result<void> check(const OptimizerOptions& options) {
  if (!is_decay(options.beta1)) {
    return fail("--adam-beta1", number_text(options.beta1), "must be at least 0 and below 1", "--adam-beta1=0.9");
  }
  if (!is_decay(options.beta2)) {
    return fail("--adam-beta2", number_text(options.beta2), "must be at least 0 and below 1", "--adam-beta2=0.999");
  }
  if (!is_non_negative(options.eps)) {
    return fail("--adam-eps", number_text(options.eps), "must be finite and not negative", "--adam-eps=1e-8");
  }
  return {};
}

std::unique_ptr<torch::optim::Optimizer> make(const OptimizerOptions& options, const NamedParameters& parameters) {
  return make_with_groups<AdamW>(parameters, options,
                                 [&](double weight_decay) { return adam_options(options, weight_decay); });
}

nlohmann::ordered_json to_json(const torch::optim::OptimizerOptions& options) {
  const auto& adamw = dynamic_cast<const AdamWOptions&>(options);
  const auto [beta1, beta2] = adamw.betas();
  return {{"lr", as_written(adamw.lr())},
          {"betas", {beta1, beta2}},
          {"eps", adamw.eps()},
          {"weight_decay", adamw.weight_decay()},
          {"amsgrad", adamw.amsgrad()}};
}

std::unique_ptr<torch::optim::OptimizerOptions> from_json(const nlohmann::json& json) {
  auto options = std::make_unique<AdamWOptions>(json.at("lr").get<double>());
  options->betas({json.at("betas").at(0).get<double>(), json.at("betas").at(1).get<double>()});
  options->eps(json.at("eps").get<double>());
  options->weight_decay(json.at("weight_decay").get<double>());
  options->amsgrad(json.at("amsgrad").get<bool>());
  return options;
}

void step_on_device(torch::optim::Optimizer& optimizer, const StepOnDevice& step) {
  for (std::size_t i = 0; i < step.steps.size(); ++i) {
    torch::optim::OptimizerParamGroup& group = optimizer.param_groups()[i];
    const auto& options = dynamic_cast<const AdamWOptions&>(group.options());
    GroupTensors all = kAdamState.group(optimizer, group, 2);
    if (all.parameters.empty()) {
      continue;
    }
    count_on_device(optimizer, all.parameters, step, i);
    const auto [beta1, beta2] = options.betas();
    at::_fused_adamw_(all.parameters, all.gradients, all.states[0], all.states[1], {}, step.steps[i].unbind(),
                      step.rates[i], beta1, beta2, options.weight_decay(), options.eps(), /*amsgrad=*/false,
                      /*maximize=*/false, {}, step.non_finite);
  }
}

/// Returns the step counts of the parameters' states, one for each.
at::Tensor counted_steps(torch::optim::Optimizer& optimizer, const std::vector<at::Tensor>& parameters) {
  std::vector<float> steps;
  steps.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters) {
    steps.push_back(static_cast<float>(kAdamState.steps(*optimizer.state().at(parameter.unsafeGetTensorImpl()))));
  }
  return torch::tensor(steps).to(parameters.front().device());
}

}  // namespace

AdamWOptions adam_options(const OptimizerOptions& wanted, double weight_decay) {
  return AdamWOptions(wanted.learning_rate)
      .betas({wanted.beta1, wanted.beta2})
      .eps(wanted.eps)
      .weight_decay(weight_decay);
}

void count_on_device(torch::optim::Optimizer& optimizer, const std::vector<at::Tensor>& parameters,
                     const StepOnDevice& step, std::size_t number) {
  at::Tensor& steps = step.steps[number];
  if (!steps.defined()) {
    steps = counted_steps(optimizer, parameters);
  }
  TORCH_CHECK(steps.numel() == static_cast<std::int64_t>(parameters.size()),
              "other parameters have gradients than in the first step");
  steps += step.non_finite.defined() ? 1 - step.non_finite : torch::ones_like(steps);  // a skipped step does not count
}

const OptimizerKind kAdamW{.python_name = "AdamW",
                           .state = kAdamState,
                           .check = check,
                           .make = make,
                           .made = is_a<AdamW>,
                           .to_json = to_json,
                           .from_json = from_json,
                           .step_on_device = step_on_device};

}  // namespace rollcall::optim
