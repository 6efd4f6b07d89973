#include "trainer/precision/lowered_weights.h"

#include <ATen/record_function.h>
#include <cstddef>
#include <utility>

namespace rollcall::precision {

LoweredWeights::LoweredWeights(torch::nn::Module& model, at::ScalarType type) {
  for (const std::shared_ptr<torch::nn::Module>& module : model.modules()) {
    if (auto* const convolution = module->as<torch::nn::Conv2dImpl>()) {
      add(convolution->weight, type);
      add(convolution->bias, type);
    } else if (auto* const linear = module->as<torch::nn::LinearImpl>()) {
      add(linear->weight, type);
      add(linear->bias, type);
    }
  }
}

/// The copy's gradient has the edge of the weight's. Autograd's engine casts what arrives there to the weight's type
/// (validate_outputs()), as the gradient of autocast's cast would.
void LoweredWeights::add(at::Tensor& of_layer, at::ScalarType type) {
  if (!of_layer.defined()) {
    return;
  }
  at::Tensor copy = at::empty_like(of_layer, of_layer.options().dtype(type).requires_grad(false));
  if (of_layer.requires_grad()) {
    torch::autograd::impl::set_gradient_edge(copy, torch::autograd::impl::gradient_edge(of_layer));
  }
  weights_.push_back(of_layer);
  copies_.push_back(std::move(copy));
  of_layers_.push_back(&of_layer);
}

/// A GPU does this in a kernel or two, as copies have the strides of their weights. They round as `.to()` does: both
/// are static_cast from float (ForeachBinaryOpList.cu, Copy.cu). On CPUs it is copy_() of each.
void LoweredWeights::refresh() {
  if (weights_.empty()) {
    return;
  }
  RECORD_USER_SCOPE("compute: weights in lower precision");
  const torch::NoGradGuard no_grad;
  at::_foreach_copy_(copies_, weights_);
}

void LoweredWeights::exchange() noexcept {
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    std::swap(*of_layers_[i], copies_[i]);
  }
}

}  // namespace rollcall::precision
