#pragma once

#include <functional>
#include <vector>

#include "trainer/torch.h"

namespace rollcall::optim {

/// What LARS and LAMB share: the update of each parameter is scaled by norms of the whole parameter, of which this rank
/// may hold a part. As in timm, parameters without weight decay are not scaled.
class LayerWise : public torch::optim::Optimizer {
 public:
  using Optimizer::Optimizer;

  /// Sets OptimizerOptions::add_up.
  void set_add_up(std::function<void(at::Tensor& sums)> add_up) { add_up_ = std::move(add_up); }

  /// Takes a step with the operators of a device's step; all parameters are on one device.
  at::Tensor step(LossClosure closure = {}) override;

  /// Returns [2, n] float32 for the n parameters of the groups `is_scaled`: the norm of each whole parameter, and that
  /// of the whole tensor of which `other` returns this rank's part (undefined or empty: none). Adds up once over the
  /// ranks; collective if parameters are divided.
  [[nodiscard]] at::Tensor norms(const std::function<bool(const torch::optim::OptimizerOptions&)>& is_scaled,
                                 const std::function<at::Tensor(const at::Tensor& parameter)>& other) const;

 private:
  std::function<void(at::Tensor& sums)> add_up_;
};

/// Returns `ratios` where both norms are above 0, 1 elsewhere. `norms`: of LayerWise::norms().
[[nodiscard]] at::Tensor where_both(const at::Tensor& norms, const at::Tensor& ratios);

}  // namespace rollcall::optim
