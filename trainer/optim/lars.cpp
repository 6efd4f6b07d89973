#include "trainer/optim/layer_wise.h"
#include "trainer/optim/optimizer_kind.h"
#include "trainer/optim/step_gate.h"

// LARS (You et al. 2017, arXiv 1708.03888): SGD with momentum whose gradient, with the weight decay in it, is scaled by
// trust * |w| / (|g| + weight_decay * |w|). The rate is outside of the momentum, as in timm's Lars and, by its momentum
// correction, in MXNet's LARS, with which NVIDIA runs MLPerf. In the paper and in MLPerf's reference it is inside.
namespace rollcall::optim {
namespace {

struct LarsOptions : public torch::optim::OptimizerCloneableOptions<LarsOptions> {
  LarsOptions(double lr = 0) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, trust_coeff) = 0;

 public:
  [[nodiscard]] double get_lr() const override { return lr(); }
  void set_lr(const double rate) override { lr(rate); }
};

const LarsOptions& options_of(const torch::optim::OptimizerOptions& options) {
  return dynamic_cast<const LarsOptions&>(options);
}

class Lars final : public LayerWise {
 public:
  Lars(const std::vector<torch::optim::OptimizerParamGroup>& groups, const LarsOptions& defaults)
      : LayerWise(groups, std::make_unique<LarsOptions>(defaults)) {}
};

Result<void> check(const OptimizerOptions& options) {
  if (!is_non_negative(options.trust)) {
    return fail("--lars-trust", number_text(options.trust), "must be finite and not negative", "--lars-trust=0.001");
  }
  return check_momentum(options);
}

std::unique_ptr<torch::optim::Optimizer> make(const OptimizerOptions& options, const NamedParameters& parameters) {
  auto optimizer = make_with_groups<Lars>(parameters, options, [&](double weight_decay) {
    return LarsOptions(options.learning_rate)
        .momentum(options.momentum)
        .weight_decay(weight_decay)
        .trust_coeff(options.trust);
  });
  optimizer->set_add_up(options.add_up);
  return optimizer;
}

nlohmann::ordered_json to_json(const torch::optim::OptimizerOptions& options) {
  const LarsOptions& lars = options_of(options);
  return {{"lr", as_written(lars.lr())},
          {"momentum", lars.momentum()},
          {"weight_decay", lars.weight_decay()},
          {"trust_coeff", lars.trust_coeff()}};
}

std::unique_ptr<torch::optim::OptimizerOptions> from_json(const nlohmann::json& json) {
  auto options = std::make_unique<LarsOptions>(json.at("lr").get<double>());
  options->momentum(json.at("momentum").get<double>());
  options->weight_decay(json.at("weight_decay").get<double>());
  options->trust_coeff(json.at("trust_coeff").get<double>());
  return options;
}

bool is_scaled(const torch::optim::OptimizerOptions& options) { return options_of(options).weight_decay() != 0; }

/// Returns one group's ratios; `norms`: [2, n] of its n parameters.
at::Tensor ratios_of(const LarsOptions& options, const at::Tensor& norms) {
  const at::Tensor below = norms[1] + norms[0] * options.weight_decay();
  return where_both(norms, norms[0] * options.trust_coeff() / below);
}

/// `norms`: of the group's parameters, undefined if it is not scaled.
void step_group(torch::optim::Optimizer& optimizer, std::size_t number, const at::Tensor& norms, const StepGate& gate) {
  const torch::optim::OptimizerParamGroup& group = optimizer.param_groups()[number];
  const LarsOptions& options = options_of(group.options());
  const at::Tensor minus_rate = gate.minus_rate(number);
  const at::Tensor momentum = gate.factor(options.momentum());
  const std::vector<at::Tensor> ratios =
      norms.defined() ? ratios_of(options, norms).unbind() : std::vector<at::Tensor>();
  for (std::size_t i = 0; i < group.params().size(); ++i) {
    const at::Tensor& parameter = group.params()[i];
    if (!parameter.grad().defined() || parameter.numel() == 0) {
      continue;
    }
    at::Tensor change = parameter.grad();
    if (norms.defined()) {
      change = change.add(parameter, options.weight_decay()).mul_(ratios[i]);
    }
    change = gate.pass({change}).front();
    const at::Tensor& sum = kMomentumState.tensor(optimizer, parameter, 0);
    sum.mul_(momentum).add_(change);
    parameter.addcmul_(sum, minus_rate);
  }
}

void step_on_device(torch::optim::Optimizer& optimizer, const StepOnDevice& step) {
  const StepGate gate(step);
  const at::Tensor norms =
      dynamic_cast<const Lars&>(optimizer).norms(is_scaled, [](const at::Tensor& part) { return part.grad(); });
  std::int64_t first = 0;
  for (std::size_t i = 0; i < step.rates.size(); ++i) {
    const torch::optim::OptimizerParamGroup& group = optimizer.param_groups()[i];
    const auto count = static_cast<std::int64_t>(is_scaled(group.options()) ? group.params().size() : 0);
    step_group(optimizer, i, count > 0 ? norms.narrow(1, first, count) : at::Tensor(), gate);
    first += count;
  }
}

}  // namespace

const OptimizerKind kLars{.python_name = "Lars",
                          .state = kMomentumState,
                          .check = check,
                          .make = make,
                          .made = is_a<Lars>,
                          .to_json = to_json,
                          .from_json = from_json,
                          .step_on_device = step_on_device};

}  // namespace rollcall::optim
