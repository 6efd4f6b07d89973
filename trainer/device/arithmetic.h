#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace rollcall::device {

/// Parts of the project's own kernels that can be left out, to measure them. Results are the same to the last bit.
struct KernelParts {
  bool residual_gradient = true;  ///< the two gradients of a block's output are added in the batch norm's pass
  bool relu_mask = true;          ///< backward reads a bit an element of a block's output instead of the output
  bool stem_pool = true;          ///< batch norm, ReLU and max pooling of the stem are one pass, with indices of a byte
  bool merge_at_once = true;      ///< the last blocks to finish merge all blocks' sums, without another kernel
  bool reverse_order = true;      ///< the second of two passes begins where the first one has ended, for the cache
  bool weights_at_once = true;    ///< in mixed precision all weights are cast at once, once a step
};

/// The parts and their names.
inline constexpr std::array kKernelParts{
    std::pair{std::string_view("residual-gradient"), &KernelParts::residual_gradient},
    std::pair{std::string_view("relu-mask"), &KernelParts::relu_mask},
    std::pair{std::string_view("stem-pool"), &KernelParts::stem_pool},
    std::pair{std::string_view("merge-at-once"), &KernelParts::merge_at_once},
    std::pair{std::string_view("reverse-order"), &KernelParts::reverse_order},
    std::pair{std::string_view("weights-at-once"), &KernelParts::weights_at_once}};

/// No part: the kernels alone.
inline constexpr KernelParts kNoKernelParts{false, false, false, false, false, false};

/// Options of a device's arithmetic.
struct Arithmetic {
  bool tf32 = true;            ///< whether float32 products use NVIDIA's TF32: 10 bits of mantissa
  bool deterministic = false;  ///< whether results are bit-identical each time
  /// The parts of the project's own kernels, which replace LibTorch's operators if there are any; unset: they do not.
  std::optional<KernelParts> own_kernels = KernelParts{};
};

}  // namespace rollcall::device
