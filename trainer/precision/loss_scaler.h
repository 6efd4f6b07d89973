#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"

namespace rollcall::precision {

/// The state of a LossScaler in a checkpoint.
struct LossScale {
  double scale = 65536;         ///< any float32 above 0 is valid; the scaler itself uses powers of two
  std::int64_t good_steps = 0;  ///< steps with finite gradients since the scale last changed

  bool operator==(const LossScale&) const = default;
};

/// Keeps gradients in the range of float16: the loss is multiplied by a factor before backward, the gradients are
/// divided by it before the optimizer's step, and if they overflowed the step is skipped and the factor halved. After
/// 2000 good steps in a row it doubles. The algorithm and its constants are those of Python's torch.amp.GradScaler,
/// with the same operators (_amp_foreach_non_finite_check_and_unscale_, _amp_update_scale_). For each step:
///
///   scaler.scale(loss).backward();
///   if (scaler.unscale(optimizer, group)) { clip; optimizer.step(); }
///   scaler.update();
///
/// Loss and gradients may be on any device, where they are scaled. The factor and the result of unscale() are in main
/// memory, since the host reads both in every step; or, after move_to(), on a device, which decides by itself whether
/// the step is skipped:
///
///   scaler.scale(loss).backward();
///   found = scaler.unscale_on_device(optimizer); add up over the ranks; a step that looks at `found`
///   scaler.update(found);
///
/// Tested on CPUs and on a stand-in device; not run on GPUs. A scaler that is off changes nothing. Main thread only.
class LossScaler {
 public:
  explicit LossScaler(bool on, const LossScale& state = {});

  [[nodiscard]] bool on() const { return on_; }
  /// Returns `loss` times the factor.
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;
  /// Divides the gradients of the optimizer's parameters, which are on one device, by the factor, in place. Returns
  /// whether those of every rank of `group` are finite; the same on each. Costs one all-reduce of one number on that
  /// device. If the scaler is off, does nothing and returns true. Throws what c10d throws.
  [[nodiscard]] bool unscale(torch::optim::Optimizer& optimizer, const process_group::Group& group);
  /// Updates the factor with the result of unscale().
  void update();

  /// Keeps the factor on `device` from now on.
  void move_to(c10::Device device);
  /// Divides the gradients as unscale() does, only those of this rank, and returns on their device, [1] float32, a
  /// number above 0 if any is not finite. The host does not wait for it. A scaler that is off checks the gradients,
  /// too.
  [[nodiscard]] at::Tensor unscale_on_device(const torch::optim::Optimizer& optimizer) const;
  /// Updates the factor, on its device, with what unscale_on_device() found on any rank.
  void update(const at::Tensor& found);

  /// Returns the state; the host waits for a device.
  [[nodiscard]] LossScale state() const;
  void set_state(const LossScale& state);
  // The parts of state(), on the factor's device: [1] float32, [1] int32.
  [[nodiscard]] const at::Tensor& factor() const { return scale_; }
  [[nodiscard]] const at::Tensor& good_steps() const { return good_steps_; }

 private:
  bool on_;
  c10::Device device_ = at::kCPU;
  at::Tensor scale_;       ///< [1] float32
  at::Tensor good_steps_;  ///< [1] int32
  at::Tensor found_inf_;   ///< [1] float32: above 0 if a gradient of the last step was not finite
};

/// Returns whether all numbers of `tensors`, of floating point types and on any devices, are finite; true for none.
/// Reads each number once with the operator of a norm, which is the fastest on CPUs and one kernel on GPUs. If a norm
/// is not finite, which large numbers may cause too, checks each number exactly. Records no gradient.
[[nodiscard]] bool all_finite(const std::vector<at::Tensor>& tensors);

/// Returns the gradients of the optimizer's parameters on this rank, without the empty ones of empty shards.
[[nodiscard]] std::vector<at::Tensor> gradients_of(const torch::optim::Optimizer& optimizer);

/// Returns the key of the first tensor of `named` with a number that is not finite; empty if there is none.
[[nodiscard]] std::string first_not_finite(const torch::OrderedDict<std::string, at::Tensor>& named);
/// Returns the name of the first parameter whose gradient is not finite; empty if there is none.
[[nodiscard]] std::string first_gradient_not_finite(const torch::OrderedDict<std::string, at::Tensor>& parameters);

}  // namespace rollcall::precision
