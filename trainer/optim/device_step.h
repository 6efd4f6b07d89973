#pragma once

#include <vector>

#include "trainer/optim/optimizer_kind.h"
#include "trainer/torch.h"

namespace rollcall::optim {

/// Steps of an optimizer that the device of its parameters takes by itself: one operator for all parameters of a group
/// (PyTorch's fused SGD and AdamW), which changes nothing where the device has found a gradient that is not finite. The
/// host does not wait for what it found, and hears of it later. Main thread only. Throws what LibTorch throws.
///
///   step.begin(); step.enqueue(non_finite);
///
/// What enqueue() gives the device may be captured, and replayed in its place, from the second step on.
class DeviceStep {
 public:
  /// Parameters are on one device, and not on the CPU. `optimizer` outlives this object; nobody else steps it or
  /// changes its state.
  explicit DeviceStep(torch::optim::Optimizer& optimizer);

  /// The device is told the learning rate of a step; once before each one.
  void begin();
  /// `non_finite`: [1] float32 on the device; 1: leave it out, 0: take it.
  void enqueue(const at::Tensor& non_finite);
  /// The host counts a step that the device was given.
  void was_given() { count(1); }
  /// One of them was left out, as the host knows by now: the optimizer's state counts it no longer.
  void left_out() { count(-1); }

 private:
  void count(int steps);

  torch::optim::Optimizer& optimizer_;
  const OptimizerKind& kind_;
  std::vector<at::Tensor> steps_;  ///< of each group: the steps that its parameters have done, on the device
  at::Tensor learning_rate_;       ///< of all groups: [] float32 on the device
};

}  // namespace rollcall::optim
