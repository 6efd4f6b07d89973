#pragma once

#include "trainer/device/kernels.h"

namespace rollcall::testing_support {

/// The project's own kernels on the host's memory: the very functions that launch the CUDA kernels, compiled to do all
/// the work of them before they return. A GPU computes the same bits (trainer/device/cuda/kernels/arithmetic.h).
[[nodiscard]] const device::Kernels& kernels_on_host();

}  // namespace rollcall::testing_support
