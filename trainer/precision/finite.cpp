#include "trainer/precision/finite.h"

#include <algorithm>

namespace rollcall::precision {
namespace {

bool is_finite(const at::Tensor& tensor) { return tensor.isfinite().all().item<bool>(); }

}  // namespace

bool all_finite(const std::vector<at::Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  if (tensors.empty()) {
    return true;
  }
  std::vector<at::Tensor> norms = at::_foreach_norm(tensors);
  for (at::Tensor& norm : norms) {
    norm = norm.to(at::kFloat);
  }
  return is_finite(torch::stack(norms)) || std::all_of(tensors.begin(), tensors.end(), is_finite);
}

std::vector<at::Tensor> gradients_of(const torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> gradients;
  for (const torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (parameter.grad().defined() && parameter.grad().numel() > 0) {
        gradients.push_back(parameter.grad());
      }
    }
  }
  return gradients;
}

std::string first_not_finite(const torch::OrderedDict<std::string, at::Tensor>& named) {
  const torch::NoGradGuard no_grad;
  for (const auto& entry : named) {
    if (!is_finite(entry.value())) {
      return entry.key();
    }
  }
  return "";
}

}  // namespace rollcall::precision
