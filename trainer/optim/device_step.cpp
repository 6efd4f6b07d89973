#include "trainer/optim/device_step.h"

namespace rollcall::optim {

DeviceStep::DeviceStep(torch::optim::Optimizer& optimizer)
    : optimizer_(optimizer), kind_(*kind_of(optimizer)), steps_(optimizer.param_groups().size()) {}

void DeviceStep::step(const at::Tensor& non_finite) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    kind_.step_on_device(optimizer_, optimizer_.param_groups()[i], steps_[i], non_finite);
  }
}

void DeviceStep::left_out() {
  for (torch::optim::OptimizerParamGroup& group : optimizer_.param_groups()) {
    for (const at::Tensor& parameter : with_gradients(group)) {
      const auto state = optimizer_.state().find(parameter.unsafeGetTensorImpl());
      if (state != optimizer_.state().end()) {  // SGD without a momentum has none
        kind_.forget_step(*state->second);
      }
    }
  }
}

}  // namespace rollcall::optim
