#pragma once

#include <optional>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/device/arithmetic.h"

namespace rollcall::config {

/// Returns the parts of the project's own kernels that --own-kernels chooses; unset: LibTorch's operators compute.
/// Errors (Usage): a word of the list is not a part, or stands beside auto, on or off.
[[nodiscard]] Result<std::optional<device::KernelParts>> own_kernels(const settings::Settings& settings);

}  // namespace rollcall::config
