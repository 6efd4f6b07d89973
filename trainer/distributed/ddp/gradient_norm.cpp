#include "trainer/distributed/ddp/gradient_norm.h"

#include <cmath>

namespace rollcall::parallel {

double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm, const process_group::Group& group) {
  constexpr double kEpsilon = 1e-6;  // of torch's clip_grad_norm_
  const torch::NoGradGuard no_grad;
  // Where the gradients are, so that the group's back end for that device adds up the squares.
  const c10::Device device = parameters.empty() ? c10::Device(c10::kCPU) : parameters.front().device();
  at::Tensor squares = torch::zeros({1}, at::TensorOptions(at::kDouble).device(device));
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined() && parameter.grad().numel() > 0) {
      squares += torch::linalg_vector_norm(parameter.grad(), 2, c10::nullopt, false, at::kDouble).square();
    }
  }
  if (group) {
    std::vector<at::Tensor> tensors{squares};
    group->allreduce(tensors)->wait();
  }
  const double norm = std::sqrt(squares.item<double>());
  const double factor = max_norm / (norm + kEpsilon);
  if (factor < 1) {
    for (const at::Tensor& parameter : parameters) {
      if (parameter.grad().defined()) {
        parameter.grad().mul_(factor);
      }
    }
  }
  return norm;
}

}  // namespace rollcall::parallel
