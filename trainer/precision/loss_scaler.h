#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"

namespace rollcall::precision {

/// What a checkpoint keeps of a LossScaler.
struct LossScale {
  double scale = 65536;         ///< a power of two here; any float32 above 0 is valid
  std::int64_t good_steps = 0;  ///< steps with finite gradients since the scale last changed

  bool operator==(const LossScale&) const = default;
};

/// Keeps gradients in the range of float16: the loss is multiplied by a factor before backward, the gradients are
/// divided by it before the optimizer, and where they overflowed the step is left out and the factor halved. After 2000
/// good steps in a row it doubles. The algorithm and its constants are those of Python's torch.amp.GradScaler, by the
/// same operators (_amp_foreach_non_finite_check_and_unscale_, _amp_update_scale_). For each step:
///
///   scaler.scale(loss).backward();
///   if (scaler.unscale(optimizer, group)) { clip; optimizer.step(); }
///   scaler.update();
///
/// The loss may be on any device, and the gradients on any one: they meet the factor there. The factor itself and what
/// unscale() has found are kept in main memory, since the host looks at both in every step; or, after move_to(), on a
/// device, which decides by itself whether the step is left out:
///
///   scaler.scale(loss).backward();
///   found = scaler.unscale_there(optimizer); add up over the ranks; a step that looks at `found`
///   scaler.update(found);
///
/// Tested on CPUs and on a stand-in device; not run on hardware. A scaler that is off passes everything through. Main
/// thread only.
class LossScaler {
 public:
  explicit LossScaler(bool on, const LossScale& state = {});

  [[nodiscard]] bool on() const { return on_; }
  /// `loss` times the factor.
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;
  /// Divides the gradients of the optimizer's parameters by the factor, in place, and tells whether those of every rank
  /// of `group` are finite; the same answer on each. One all-reduce of one number, on the device of the parameters,
  /// which are on one. True without work where it is off. Throws what c10d throws.
  [[nodiscard]] bool unscale(torch::optim::Optimizer& optimizer, const process_group::Group& group);
  /// Adapts the factor to what unscale() found.
  void update();

  /// Keeps the factor on `device` from now on.
  void move_to(c10::Device device);
  /// Divides the gradients as unscale() does, those of this rank alone, and tells on their device, [1] float32, whether
  /// all are finite: above 0: no. The host does not wait for it. One that is off looks at them all the same.
  [[nodiscard]] at::Tensor unscale_there(const torch::optim::Optimizer& optimizer) const;
  /// Adapts the factor to what unscale_there() found on any rank; where the factor is.
  void update(const at::Tensor& found);

  /// On a device the host waits for it.
  [[nodiscard]] LossScale state() const;
  void set_state(const LossScale& state);
  /// What state() is made of, where the factor is: [1] float32, [1] int32.
  [[nodiscard]] const at::Tensor& factor() const { return scale_; }
  [[nodiscard]] const at::Tensor& good_steps() const { return good_steps_; }

 private:
  bool on_;
  c10::Device device_ = at::kCPU;
  at::Tensor scale_;       ///< [1] float32
  at::Tensor good_steps_;  ///< [1] int32
  at::Tensor found_inf_;   ///< [1] float32: above 0 where a gradient of the last step was not finite
};

/// Whether all numbers of `tensors`, of floating point types and on any devices, are finite; true for none. Reads each
/// number once by the operator of a norm, which is the fastest on CPUs and one kernel on GPUs; only where a norm is not
/// finite, which large numbers may do too, once more and exactly. No gradient is recorded.
[[nodiscard]] bool all_finite(const std::vector<at::Tensor>& tensors);

/// The gradients that the optimizer's parameters have on this rank, without the empty ones that a shard may be.
[[nodiscard]] std::vector<at::Tensor> gradients_of(const torch::optim::Optimizer& optimizer);

/// The key of the first tensor of `named` with a number that is not finite; empty where there is none.
[[nodiscard]] std::string first_not_finite(const torch::OrderedDict<std::string, at::Tensor>& named);
/// The first parameter whose gradient is not; empty where there is none.
[[nodiscard]] std::string first_gradient_not_finite(const torch::OrderedDict<std::string, at::Tensor>& parameters);

}  // namespace rollcall::precision
