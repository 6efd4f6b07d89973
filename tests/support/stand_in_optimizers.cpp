// The stand-in device's fused optimizers: the arithmetic of LibTorch's own optimizers on CPUs, operation by operation
// (torch/csrc/api/src/optim/sgd.cpp, adamw.cpp), so that a step on the device is the CPU's to the bit; none where the
// device has found that gradients are not finite.
#include <torch/library.h>

#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/support/stand_in_device.h"

namespace rollcall::testing_support::stand_in {
namespace {

using Tensors = std::vector<at::Tensor>;
using MaybeTensor = std::optional<at::Tensor>;

Tensors places_of(at::TensorList tensors) {
  Tensors places;
  for (const at::Tensor& tensor : tensors) {
    places.push_back(place_of(tensor));
  }
  return places;
}

/// Enqueues `step`, given the learning rate, unless the device finds then that it is to be left out: as PyTorch's own
/// on GPUs, which of another number than 1 take it.
template <typename Step>
void enqueue_step(const at::Tensor& learning_rate, const MaybeTensor& found_inf, Step step) {
  TORCH_CHECK(found_inf, "the stand-in's optimizers want to know whether gradients are finite");
  enqueue([step = std::move(step), rate = place_of(learning_rate), found = place_of(*found_inf)] {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    if (found.item<float>() != 1) {
      step(rate.item<float>());
    }
  });
}

void fused_sgd(at::TensorList parameters, at::TensorList gradients, at::TensorList momenta, double weight_decay,
               double momentum, const at::Tensor& learning_rate, double dampening, bool nesterov, bool maximize,
               bool is_first_step, const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  TORCH_CHECK(!maximize && !is_first_step && !grad_scale, "the stand-in's SGD has not learned that");
  const auto guard = on_device_of({parameters, gradients, momenta});
  enqueue_step(learning_rate, found_inf,
               [=, parameters = places_of(parameters), gradients = places_of(gradients),
                buffers = places_of(momenta)](double rate) {
                 for (std::size_t i = 0; i < parameters.size(); ++i) {
                   at::Tensor change = gradients[i];
                   if (weight_decay != 0) {
                     change = change.add(parameters[i], weight_decay);
                   }
                   if (momentum != 0) {
                     buffers[i].mul_(momentum).add_(change, 1 - dampening);
                     change = nesterov ? change.add(buffers[i], momentum) : buffers[i];
                   }
                   parameters[i].add_(change, -rate);
                 }
               });
}

void fused_adamw(at::TensorList parameters, at::TensorList gradients, at::TensorList means, at::TensorList squares,
                 at::TensorList /*largest*/, at::TensorList steps, const at::Tensor& learning_rate, double beta1,
                 double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
                 const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  TORCH_CHECK(!amsgrad && !maximize && !grad_scale, "the stand-in's AdamW has not learned that");
  const auto guard = on_device_of({parameters, gradients, means, squares, steps});
  enqueue_step(learning_rate, found_inf,
               [=, parameters = places_of(parameters), gradients = places_of(gradients), means = places_of(means),
                squares = places_of(squares), steps = places_of(steps)](double rate) {
                 for (std::size_t i = 0; i < parameters.size(); ++i) {
                   const double step = steps[i].item<float>();
                   if (weight_decay != 0) {
                     parameters[i].mul_(1 - rate * weight_decay);
                   }
                   means[i].mul_(beta1).add_(gradients[i], 1 - beta1);
                   squares[i].mul_(beta2).addcmul_(gradients[i], gradients[i], 1 - beta2);
                   const at::Tensor denominator = (squares[i].sqrt() / std::sqrt(1 - std::pow(beta2, step))).add_(eps);
                   parameters[i].addcdiv_(means[i], denominator, -(rate / (1 - std::pow(beta1, step))));
                 }
               });
}

/// STAND_IN_OVERFLOWS: the number, counted from 1, of the step whose gradients are found to be not finite.
int overflowing_step() {
  static const char* const number = std::getenv("STAND_IN_OVERFLOWS");
  return number == nullptr ? 0 : std::atoi(number);
}

void check_and_unscale(at::TensorList gradients, at::Tensor& found_inf, const at::Tensor& inverse_scale) {
  const auto guard = on_device_of({gradients});
  enqueue([gradients = places_of(gradients), found = place_of(found_inf), inverse = place_of(inverse_scale)]() mutable {
    static int steps = 0;  // that the device has done: it does one thing at a time
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse);
    if (++steps == overflowing_step()) {
      found.fill_(1);
    }
  });
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_amp_foreach_non_finite_check_and_unscale_", &check_and_unscale);
  m.impl("_fused_sgd_.tensor_lr", &fused_sgd);
  m.impl("_fused_adamw_.tensor_lr", &fused_adamw);
}

}  // namespace
}  // namespace rollcall::testing_support::stand_in
