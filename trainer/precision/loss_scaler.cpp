#include "trainer/precision/loss_scaler.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace rollcall::precision {
namespace {

// The defaults of torch.amp.GradScaler.
constexpr double kGrowthFactor = 2;
constexpr double kBackoffFactor = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;

/// Groups tensors by type, as the operator requires.
std::map<at::ScalarType, std::vector<at::Tensor>> gradients_by_type(const torch::optim::Optimizer& optimizer) {
  std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
  for (const at::Tensor& gradient : gradients_of(optimizer)) {
    by_type[gradient.scalar_type()].push_back(gradient);
  }
  return by_type;
}

/// Returns the gradients' device; see LossScaler::unscale().
c10::Device device_of(const torch::optim::Optimizer& optimizer) {
  for (const torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    if (!group.params().empty()) {
      return group.params().front().device();
    }
  }
  return at::kCPU;
}

}  // namespace

LossScaler::LossScaler(bool on, const LossScale& state) : on_(on) { set_state(state); }

at::Tensor LossScaler::scale(const at::Tensor& loss) const {
  return on_ ? loss * scale_.to(loss.device()).squeeze() : loss;
}

bool LossScaler::unscale(torch::optim::Optimizer& optimizer, const process_group::Group& group) {
  if (!on_) {
    return true;
  }
  const torch::NoGradGuard no_grad;
  at::Tensor found_inf = unscale_on_device(optimizer);
  if (group) {
    std::vector<at::Tensor> tensors{found_inf};
    group->allreduce(tensors)->wait();
  }
  found_inf_ = found_inf.to(at::kCPU);
  return found_inf_.item<float>() == 0;
}

void LossScaler::update() { update(found_inf_); }

void LossScaler::move_to(c10::Device device) {
  device_ = device;
  scale_ = scale_.to(device);
  good_steps_ = good_steps_.to(device);
  found_inf_ = found_inf_.to(device);
}

at::Tensor LossScaler::unscale_on_device(const torch::optim::Optimizer& optimizer) const {
  const torch::NoGradGuard no_grad;
  const c10::Device device = device_of(optimizer);
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
  const at::Tensor inverse =
      on_ ? scale_.to(at::kDouble).reciprocal().to(at::kFloat).to(device) : torch::ones({1}, options);
  at::Tensor found = torch::zeros({1}, options);
  for (auto& [type, gradients] : gradients_by_type(optimizer)) {
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse);
  }
  return found;
}

void LossScaler::update(const at::Tensor& found) {
  if (on_) {
    at::_amp_update_scale_(scale_, good_steps_, found, kGrowthFactor, kBackoffFactor, kGrowthInterval);
  }
}

LossScale LossScaler::state() const {
  return {.scale = static_cast<double>(scale_.item<float>()), .good_steps = good_steps_.item<std::int32_t>()};
}

void LossScaler::set_state(const LossScale& state) {
  scale_ = torch::full({1}, state.scale, at::kFloat).to(device_);
  good_steps_ = torch::full({1}, state.good_steps, at::kInt).to(device_);
  found_inf_ = torch::zeros({1}, at::kFloat).to(device_);
}

namespace {

bool is_finite(const at::Tensor& tensor) { return tensor.isfinite().all().item<bool>(); }

/// Returns whether all numbers of at least one tensor, all on one device, are finite.
bool all_finite_there(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> norms = at::_foreach_norm(tensors);
  for (at::Tensor& norm : norms) {
    norm = norm.to(at::kFloat);
  }
  return is_finite(torch::stack(norms)) || std::all_of(tensors.begin(), tensors.end(), is_finite);
}

}  // namespace

bool all_finite(const std::vector<at::Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  const auto is_there = [&](const at::Tensor& tensor) { return tensor.device() == tensors.front().device(); };
  if (std::ranges::all_of(tensors, is_there)) {  // the common case: each step's gradients
    return tensors.empty() || all_finite_there(tensors);
  }
  std::map<std::string, std::vector<at::Tensor>> by_device;  // shards may be in main memory, statistics on a GPU
  for (const at::Tensor& tensor : tensors) {
    by_device[tensor.device().str()].push_back(tensor);
  }
  return std::ranges::all_of(by_device, [](const auto& there) { return all_finite_there(there.second); });
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

std::string first_gradient_not_finite(const torch::OrderedDict<std::string, at::Tensor>& parameters) {
  torch::OrderedDict<std::string, at::Tensor> gradients;
  for (const auto& parameter : parameters) {
    if (parameter.value().grad().defined()) {
      gradients.insert(parameter.key(), parameter.value().grad());
    }
  }
  return first_not_finite(gradients);
}

}  // namespace rollcall::precision
