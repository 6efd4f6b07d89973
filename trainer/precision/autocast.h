#pragma once

#include <optional>

#include "runtime/base/result.h"
#include "trainer/device/device.h"
#include "trainer/torch.h"

namespace rollcall::precision {

/// The type in which matrix products and convolutions are computed; unset: that of their inputs (float32).
using ComputeType = std::optional<at::ScalarType>;

/// Returns the type for a value of setting `precision`: "fp32", "bf16" or "fp16".
[[nodiscard]] ComputeType compute_type(const std::string& precision);

/// Enables autocast on this thread during its lifetime, as Python's torch.autocast: matrix products and convolutions
/// compute in `type`, losses and similar operators in float32, and the rest in the type of its inputs. Use it for
/// forward and loss only; backward follows from what forward recorded.
///
/// Casts of weights are not cached, unlike Python's default: no weight of a ResNet is used twice, and a sharded model's
/// whole weights could not be freed. Objects may nest. Does nothing without a type.
class Autocast {
 public:
  explicit Autocast(ComputeType type, at::DeviceType device = at::kCPU);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  at::DeviceType device_;
  bool active_;
  bool was_enabled_ = false;
  bool cached_ = false;
  at::ScalarType type_before_ = at::kFloat;
};

/// Checks that `device` has every operator that a ResNet's training needs in `type`, forward and backward, with a small
/// ResNet. Errors (Usage): LibTorch's message about the first missing operator. Call avoid_unusable_amx() before.
[[nodiscard]] Result<void> check_operators(ComputeType type, const device::Device& device = {});

}  // namespace rollcall::precision
