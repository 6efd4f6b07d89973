#pragma once

#include "trainer/device/kernels.h"

struct CUstream_st;

namespace rollcall::device::kernels {

// Launches the CUDA kernels. Every function launches kernels on `stream` and returns kSuccess or the cudaError_t of a
// failed launch, which does not cover failures of the kernels themselves. It returns kInvalidValue, and launches
// nothing, for shapes and pointers that break the rules of trainer/device/kernels.h. Thread-safe.

using Stream = CUstream_st*;  ///< a cudaStream_t
using Status = int;           ///< a cudaError_t
inline constexpr Status kSuccess = 0;
inline constexpr Status kInvalidValue = 1;

/// See Kernels::workspace_bytes.
[[nodiscard]] std::size_t workspace_bytes(const Shape& shape);
/// See Kernels::mask_bytes.
[[nodiscard]] std::size_t mask_bytes(const Shape& shape);

[[nodiscard]] Status batch_norm_statistics(const BatchNormStatistics& of, Stream stream);
[[nodiscard]] Status merge_statistics(const MergeStatistics& of, Stream stream);
[[nodiscard]] Status batch_norm_add_relu_forward(const BatchNormForward& of, Stream stream);
[[nodiscard]] Status batch_norm_add_relu_backward_sums(const BatchNormBackwardSums& of, Stream stream);
[[nodiscard]] Status batch_norm_add_relu_backward_input(const BatchNormBackwardInput& of, Stream stream);
[[nodiscard]] Status normalise_images(const NormaliseImages& images, Stream stream);
[[nodiscard]] Status cast_and_scale(const CastAndScale& of, Stream stream);

}  // namespace rollcall::device::kernels
