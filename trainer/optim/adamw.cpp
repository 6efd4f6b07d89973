#include "trainer/optim/adam_group.h"
#include "trainer/optim/optimizer_kind.h"

namespace rollcall::optim {
namespace {

using torch::optim::AdamW;
using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;

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
  return make_with_groups<AdamW>(parameters, options, [&](double weight_decay) {
    return AdamWOptions(options.learning_rate)
        .betas({options.beta1, options.beta2})
        .eps(options.eps)
        .weight_decay(weight_decay);
  });
}

bool made(const torch::optim::Optimizer& optimizer) { return dynamic_cast<const AdamW*>(&optimizer) != nullptr; }

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

void save_state(const torch::optim::OptimizerParamState& state, const StateSink& sink) {
  const auto& adamw = dynamic_cast<const AdamWParamState&>(state);
  sink.number("step", adamw.step());
  sink.tensor("exp_avg", adamw.exp_avg());
  sink.tensor("exp_avg_sq", adamw.exp_avg_sq());
  if (adamw.max_exp_avg_sq().defined()) {
    sink.tensor("max_exp_avg_sq", adamw.max_exp_avg_sq());
  }
}

std::unique_ptr<torch::optim::OptimizerParamState> load_state(const StateSource& source) {
  const std::optional<std::int64_t> step = source.number("step");
  if (!step) {
    return nullptr;
  }
  auto state = std::make_unique<AdamWParamState>();
  state->step(*step);
  state->exp_avg(source.tensor("exp_avg"));
  state->exp_avg_sq(source.tensor("exp_avg_sq"));
  state->max_exp_avg_sq(source.tensor("max_exp_avg_sq"));
  TORCH_CHECK(state->exp_avg().defined() && state->exp_avg_sq().defined(),
              "exp_avg or exp_avg_sq of a parameter is missing there");
  return state;
}

void step_on_device(torch::optim::Optimizer& optimizer, const StepOnDevice& step) {
  for (std::size_t i = 0; i < step.steps.size(); ++i) {
    torch::optim::OptimizerParamGroup& group = optimizer.param_groups()[i];
    const auto& options = dynamic_cast<const AdamWOptions&>(group.options());
    AdamGroup all = adam_group(optimizer, group);
    if (all.parameters.empty()) {
      continue;
    }
    count_on_device(optimizer, all, step, i);
    const auto [beta1, beta2] = options.betas();
    at::_fused_adamw_(all.parameters, all.gradients, all.means, all.squares, {}, step.steps[i].unbind(),
                      step.learning_rate, beta1, beta2, options.weight_decay(), options.eps(), /*amsgrad=*/false,
                      /*maximize=*/false, {}, step.non_finite);
  }
}

void count_steps(torch::optim::OptimizerParamState& state, int steps) {
  auto& adamw = dynamic_cast<AdamWParamState&>(state);
  adamw.step(adamw.step() + steps);
}

/// Returns the step counts of the parameters' states, one for each.
at::Tensor counted_steps(torch::optim::Optimizer& optimizer, const std::vector<at::Tensor>& parameters) {
  std::vector<float> steps;
  steps.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters) {
    steps.push_back(static_cast<float>(state_for<AdamWParamState>(optimizer, parameter).step()));
  }
  return torch::tensor(steps).to(parameters.front().device());
}

}  // namespace

AdamGroup adam_group(torch::optim::Optimizer& optimizer, const torch::optim::OptimizerParamGroup& group) {
  AdamGroup all{.parameters = with_gradients(group), .gradients = {}, .means = {}, .squares = {}};
  for (const at::Tensor& parameter : all.parameters) {
    auto& state = state_for<AdamWParamState>(optimizer, parameter);
    if (!state.exp_avg().defined()) {
      state.exp_avg(torch::zeros_like(parameter));
      state.exp_avg_sq(torch::zeros_like(parameter));
    }
    all.gradients.push_back(parameter.grad());
    all.means.push_back(state.exp_avg());
    all.squares.push_back(state.exp_avg_sq());
  }
  return all;
}

void count_on_device(torch::optim::Optimizer& optimizer, const AdamGroup& group, const StepOnDevice& step,
                     std::size_t number) {
  at::Tensor& steps = step.steps[number];
  if (!steps.defined()) {
    steps = counted_steps(optimizer, group.parameters);
  }
  TORCH_CHECK(steps.numel() == static_cast<std::int64_t>(group.parameters.size()),
              "other parameters have gradients than in the first step");
  steps += step.non_finite.defined() ? 1 - step.non_finite : torch::ones_like(steps);  // a skipped step does not count
}

const OptimizerKind kAdamW{.python_name = "AdamW",
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
