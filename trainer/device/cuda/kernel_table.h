#pragma once

#include "trainer/device/kernels.h"

namespace rollcall::device {

/// Returns the project's own CUDA kernels, which use LibTorch's current stream; null if the plugin was built without
/// nvcc.
[[nodiscard]] const Kernels* own_kernels();

}  // namespace rollcall::device
