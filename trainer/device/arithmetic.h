#pragma once

namespace rollcall::device {

/// Options of a device's arithmetic.
struct Arithmetic {
  bool tf32 = true;            ///< whether float32 products use NVIDIA's TF32: 10 bits of mantissa
  bool deterministic = false;  ///< whether results are bit-identical each time
  bool own_kernels = true;     ///< whether the project's own kernels replace LibTorch's operators, if there are any
};

}  // namespace rollcall::device
