#pragma once

#include <vector>

#include "trainer/optim/optimizer_kind.h"
#include "trainer/torch.h"

namespace rollcall::optim {

/// Runs an optimizer's steps on the device of its parameters without the host: operators for all parameters of a group
/// (PyTorch's fused SGD and AdamW; the foreach operators behind a StepGate), which change nothing if the device found a
/// gradient that is not finite. The host does not wait for that result, and reads it later. Main thread only. Throws
/// what LibTorch throws.
///
///   step.begin(); step.enqueue(non_finite);
///
/// From the second step on, the work of enqueue() may be captured in a graph and replayed instead.
class DeviceStep {
 public:
  /// Parameters are on one device other than the CPU. `optimizer` outlives this object, and nothing else may step it or
  /// change its state.
  explicit DeviceStep(torch::optim::Optimizer& optimizer);

  /// Copies the learning rates to the device. Call it once before each step.
  void begin();
  /// Enqueues a step. `non_finite`: [1] float32 on the device; 1 skips the step, 0 takes it.
  void enqueue(const at::Tensor& non_finite);
  /// Counts a step that was enqueued, in the optimizer's state on the host.
  void count_step() { count(1); }
  /// Corrects that count for a step that turned out to be skipped.
  void uncount_step() { count(-1); }

 private:
  void count(int steps);

  torch::optim::Optimizer& optimizer_;
  const OptimizerKind& kind_;
  std::vector<at::Tensor> steps_;  ///< number of steps of each group's parameters, on the device
  std::vector<at::Tensor> rates_;  ///< learning rate of each group, [] float32 on the device
};

}  // namespace rollcall::optim
