#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "trainer/device/kernels.h"

namespace rollcall::device {

/// Returns the type for the project's own kernels; unset if they do not support it.
[[nodiscard]] inline std::optional<kernels::ElementType> element_type(c10::ScalarType type) {
  switch (type) {
    case c10::kFloat:
      return kernels::ElementType::Float32;
    case c10::kHalf:
      return kernels::ElementType::Float16;
    case c10::kBFloat16:
      return kernels::ElementType::BFloat16;
    default:
      return std::nullopt;
  }
}

}  // namespace rollcall::device
