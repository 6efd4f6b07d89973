#include "trainer/optim/device_step.h"

namespace rollcall::optim {

DeviceStep::DeviceStep(torch::optim::Optimizer& optimizer)
    : optimizer_(optimizer), kind_(*kind_of(optimizer)), steps_(optimizer.param_groups().size()) {
  const at::Tensor& some = optimizer.param_groups().front().params().front();
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    rates_.push_back(torch::zeros({}, some.options().dtype(at::kFloat).requires_grad(false)));
  }
}

void DeviceStep::begin() {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    rates_[i].fill_(optimizer_.param_groups()[i].options().get_lr());
  }
}

void DeviceStep::enqueue(const at::Tensor& non_finite) {
  const torch::NoGradGuard no_grad;
  kind_.step_on_device(optimizer_, {.steps = steps_, .rates = rates_, .non_finite = non_finite});
}

void DeviceStep::count(int steps) {
  for (torch::optim::OptimizerParamGroup& group : optimizer_.param_groups()) {
    for (const at::Tensor& parameter : with_gradients(group)) {
      const auto state = optimizer_.state().find(parameter.unsafeGetTensorImpl());
      if (state != optimizer_.state().end()) {  // SGD without a momentum has none
        kind_.state.count(*state->second, steps);
      }
    }
  }
}

}  // namespace rollcall::optim
