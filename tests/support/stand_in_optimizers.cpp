// The stand-in device's fused optimizers: the arithmetic of LibTorch's own optimizers on CPUs, operation by operation
// (torch/csrc/api/src/optim/sgd.cpp, adamw.cpp), so that a step on the device is the CPU's to the bit; none where the
// device has found that gradients are not finite.
#include <torch/library.h>

#include <cmath>

#include "tests/support/stand_in_device.h"

namespace rollcall::testing_support::stand_in {
namespace {

using MaybeTensor = std::optional<at::Tensor>;

/// As PyTorch's own on GPUs: of another number than 1 they take the step.
bool leaves_out(const MaybeTensor& found_inf) { return found_inf && values_of(*found_inf).item<float>() == 1; }

void fused_sgd(at::TensorList parameters, at::TensorList gradients, at::TensorList momenta, double weight_decay,
               double momentum, double learning_rate, double dampening, bool nesterov, bool maximize,
               bool is_first_step, const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  TORCH_CHECK(!maximize && !is_first_step && !grad_scale, "the stand-in's SGD has not learned that");
  const auto guard = on_device_of({parameters, gradients, momenta});
  if (leaves_out(found_inf)) {
    return;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor parameter = values_of(parameters[i]);
    at::Tensor change = values_of(gradients[i]);
    if (weight_decay != 0) {
      change = change.add(parameter, weight_decay);
    }
    if (momentum != 0) {
      const at::Tensor buffer = values_of(momenta[i]);
      buffer.mul_(momentum).add_(change, 1 - dampening);
      change = nesterov ? change.add(buffer, momentum) : buffer;
    }
    parameter.add_(change, -learning_rate);
  }
}

void fused_adamw(at::TensorList parameters, at::TensorList gradients, at::TensorList means, at::TensorList squares,
                 at::TensorList /*largest*/, at::TensorList steps, double learning_rate, double beta1, double beta2,
                 double weight_decay, double eps, bool amsgrad, bool maximize, const MaybeTensor& grad_scale,
                 const MaybeTensor& found_inf) {
  TORCH_CHECK(!amsgrad && !maximize && !grad_scale, "the stand-in's AdamW has not learned that");
  const auto guard = on_device_of({parameters, gradients, means, squares, steps});
  if (leaves_out(found_inf)) {
    return;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor parameter = values_of(parameters[i]);
    const at::Tensor gradient = values_of(gradients[i]);
    const at::Tensor mean = values_of(means[i]);
    const at::Tensor square = values_of(squares[i]);
    const double step = values_of(steps[i]).item<float>();
    if (weight_decay != 0) {
      parameter.mul_(1 - learning_rate * weight_decay);
    }
    mean.mul_(beta1).add_(gradient, 1 - beta1);
    square.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
    const at::Tensor denominator = (square.sqrt() / std::sqrt(1 - std::pow(beta2, step))).add_(eps);
    parameter.addcdiv_(mean, denominator, -(learning_rate / (1 - std::pow(beta1, step))));
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sgd_", &fused_sgd);
  m.impl("_fused_adamw_", &fused_adamw);
}

}  // namespace
}  // namespace rollcall::testing_support::stand_in
