#include <unordered_map>

#include "trainer/optim/adam_group.h"
#include "trainer/optim/layer_wise.h"
#include "trainer/optim/optimizer_kind.h"
#include "trainer/optim/step_gate.h"

// LAMB (You et al. 2019, arXiv 1904.00962) as timm's Lamb: bias correction, averaged gradients, weight decay in the
// update, no limit of the ratio |w| / |update|. timm's max_grad_norm is --clip-grad-norm here. State and options are
// AdamW's.
namespace rollcall::optim {
namespace {

using torch::optim::AdamWOptions;

const AdamWOptions& options_of(const torch::optim::OptimizerOptions& options) {
  return dynamic_cast<const AdamWOptions&>(options);
}

class Lamb final : public LayerWise {
 public:
  Lamb(const std::vector<torch::optim::OptimizerParamGroup>& groups, const AdamWOptions& defaults)
      : LayerWise(groups, std::make_unique<AdamWOptions>(defaults)) {}
};

std::unique_ptr<torch::optim::Optimizer> make(const OptimizerOptions& options, const NamedParameters& parameters) {
  auto optimizer = make_with_groups<Lamb>(parameters, options,
                                          [&](double weight_decay) { return adam_options(options, weight_decay); });
  optimizer->set_add_up(options.add_up);
  return optimizer;
}

bool is_scaled(const torch::optim::OptimizerOptions& options) { return options_of(options).weight_decay() != 0; }

/// By parameter: its change for a rate of 1.
using Updates = std::unordered_map<const void*, at::Tensor>;

/// Advances the moments of group `number`, and adds its updates.
void update_moments(torch::optim::Optimizer& optimizer, std::size_t number, const StepOnDevice& step,
                    const StepGate& gate, Updates& updates) {
  const torch::optim::OptimizerParamGroup& group = optimizer.param_groups()[number];
  const AdamWOptions& options = options_of(group.options());
  GroupTensors all = kAdamState.group(optimizer, group, 2);
  if (all.parameters.empty()) {
    return;
  }
  count_on_device(optimizer, all.parameters, step, number);
  // 0 if the first step is skipped. 1 - 0.999 needs float64.
  const at::Tensor count = step.steps[number].amax().clamp_min(1).to(at::kDouble);
  const auto [beta1, beta2] = options.betas();
  const at::Tensor root = (1 - at::pow(beta2, count)).sqrt_();
  const std::vector<at::Tensor>& means = all.states[0];
  const std::vector<at::Tensor>& squares = all.states[1];
  const std::vector<at::Tensor> gradients = gate.pass(std::move(all.gradients));
  at::_foreach_mul_(means, gate.factor(beta1));
  at::_foreach_add_(means, gradients, 1 - beta1);
  at::_foreach_mul_(squares, gate.factor(beta2));
  at::_foreach_addcmul_(squares, gradients, gradients, 1 - beta2);
  // Both corrections at once: mean / c1 / (sqrt(square) / root + eps).
  std::vector<at::Tensor> below = at::_foreach_sqrt(squares);
  at::_foreach_add_(below, (root * options.eps()).to(at::kFloat));
  std::vector<at::Tensor> found = at::_foreach_div(means, below);
  at::_foreach_mul_(found, (root / (1 - at::pow(beta1, count))).to(at::kFloat));
  if (options.weight_decay() != 0) {
    at::_foreach_add_(found, all.parameters, options.weight_decay());
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    updates[all.parameters[i].unsafeGetTensorImpl()] = std::move(found[i]);
  }
}

void step_on_device(torch::optim::Optimizer& optimizer, const StepOnDevice& step) {
  const StepGate gate(step);
  Updates updates;
  for (std::size_t i = 0; i < step.steps.size(); ++i) {
    update_moments(optimizer, i, step, gate, updates);
  }
  const auto update_of = [&](const at::Tensor& parameter) {
    const auto found = updates.find(parameter.unsafeGetTensorImpl());
    return found == updates.end() ? at::Tensor() : found->second;
  };
  const at::Tensor norms = dynamic_cast<const Lamb&>(optimizer).norms(is_scaled, update_of);
  const at::Tensor ratios = where_both(norms, norms[0] / norms[1]);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < step.rates.size(); ++i) {
    const torch::optim::OptimizerParamGroup& group = optimizer.param_groups()[i];
    const at::Tensor rate = gate.minus_rate(i);
    const auto scaled = static_cast<std::int64_t>(is_scaled(group.options()) ? group.params().size() : 0);
    const std::vector<at::Tensor> rates = (ratios.narrow(0, first, scaled) * rate).unbind();
    first += scaled;
    for (std::size_t j = 0; j < group.params().size(); ++j) {
      if (const at::Tensor update = update_of(group.params()[j]); update.defined()) {
        group.params()[j].addcmul_(update, scaled > 0 ? rates[j] : rate);
      }
    }
  }
}

}  // namespace

const OptimizerKind kLamb{
    .python_name = "Lamb",
    .state = kAdamState,
    .check = [](const OptimizerOptions& options) { return kAdamW.check(options); },
    .make = make,
    .made = is_a<Lamb>,
    .to_json = [](const torch::optim::OptimizerOptions& options) { return kAdamW.to_json(options); },
    .from_json = [](const nlohmann::json& json) { return kAdamW.from_json(json); },
    .step_on_device = step_on_device};

}  // namespace rollcall::optim
