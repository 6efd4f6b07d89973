#pragma once

namespace rollcall::device {

/// How a device computes where it has the choice.
struct Arithmetic {
  bool tf32 = true;            ///< float32 is multiplied as NVIDIA's TF32: 10 bits of mantissa
  bool deterministic = false;  ///< the same bits each time
  bool own_kernels = true;     ///< the project's own kernels instead of LibTorch's operators, where there are some
};

}  // namespace rollcall::device
