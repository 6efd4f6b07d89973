#pragma once

#include <cstddef>
#include <vector>

#include "trainer/optim/optimizer_kind.h"
#include "trainer/torch.h"

namespace rollcall::optim {

/// Makes operators leave everything as it is in a step that the device skips, although the host does not know of it.
/// Without `non_finite` every step is taken.
class StepGate {
 public:
  explicit StepGate(const StepOnDevice& step) : rates_(step.rates) {
    if (step.non_finite.defined()) {
      skipped_ = step.non_finite.squeeze(0) != 0;
    }
  }

  /// Returns `tensors`, or zeros if the step is skipped, whatever their numbers are.
  [[nodiscard]] std::vector<at::Tensor> pass(std::vector<at::Tensor> tensors) const {
    for (at::Tensor& tensor : tensors) {
      tensor = skipped_.defined() ? at::where(skipped_, 0, tensor) : tensor;
    }
    return tensors;
  }
  /// Returns [] float32: `factor`, or 1 if the step is skipped.
  [[nodiscard]] at::Tensor factor(double factor) const {
    const at::Tensor taken = torch::full({}, factor, rates_.front().options());
    return skipped_.defined() ? at::where(skipped_, 1, taken) : taken;
  }
  /// Returns [] float32: the learning rate of a group below zero, or 0 if the step is skipped.
  [[nodiscard]] at::Tensor minus_rate(std::size_t group) const {
    return skipped_.defined() ? at::where(skipped_, 0, rates_[group].neg()) : rates_[group].neg();
  }

 private:
  const std::vector<at::Tensor>& rates_;
  at::Tensor skipped_;  ///< [] bool on the device
};

}  // namespace rollcall::optim
