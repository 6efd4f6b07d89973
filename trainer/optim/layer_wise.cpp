#include "trainer/optim/layer_wise.h"

#include <algorithm>
#include <iterator>

#include "trainer/optim/device_step.h"

namespace rollcall::optim {

at::Tensor LayerWise::step(LossClosure /*closure*/) {
  DeviceStep step(*this);
  step.begin();
  step.enqueue({});
  step.count_step();
  return {};
}

at::Tensor LayerWise::norms(const std::function<bool(const torch::optim::OptimizerOptions&)>& is_scaled,
                            const std::function<at::Tensor(const at::Tensor& parameter)>& other) const {
  // Every rank has a number for every parameter, also for one of which it has no row.
  std::vector<at::Tensor> parts;
  std::vector<at::Tensor> others;
  for (const torch::optim::OptimizerParamGroup& group : param_groups()) {
    if (is_scaled(group.options())) {
      for (const at::Tensor& parameter : group.params()) {
        parts.push_back(parameter);
        others.push_back(other(parameter));
      }
    }
  }
  const auto count = static_cast<std::int64_t>(parts.size());
  parts.insert(parts.end(), others.begin(), others.end());
  std::vector<at::Tensor> held;
  std::ranges::copy_if(parts, std::back_inserter(held),
                       [](const at::Tensor& part) { return part.defined() && part.numel() > 0; });
  const std::vector<at::Tensor> of_held = held.empty() ? std::vector<at::Tensor>() : at::_foreach_norm(held);
  const at::Tensor none = torch::zeros({}, param_groups().front().params().front().options());
  std::vector<at::Tensor> all;
  all.reserve(parts.size());
  auto next = of_held.begin();
  for (const at::Tensor& part : parts) {
    all.push_back(part.defined() && part.numel() > 0 ? *next++ : none);
  }
  at::Tensor squares = (all.empty() ? none.new_zeros({0}) : torch::stack(all)).to(at::kDouble).square_();
  if (add_up_ && !all.empty()) {
    add_up_(squares);
  }
  return squares.sqrt_().to(at::kFloat).view({2, count});
}

at::Tensor where_both(const at::Tensor& norms, const at::Tensor& ratios) {
  return at::where((norms > 0).all(0), ratios, 1);
}

}  // namespace rollcall::optim
