#pragma once

#include "trainer/device/kernels.h"

namespace rollcall::device {

/// The project's own CUDA kernels on LibTorch's current stream; null: this plugin was built without nvcc.
[[nodiscard]] const Kernels* own_kernels();

}  // namespace rollcall::device
