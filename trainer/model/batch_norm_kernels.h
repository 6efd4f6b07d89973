#pragma once

#include <cstdint>
#include <span>

namespace rollcall::model {

// The passes of batch_norm.h on channels-last memory, [rows][channels] with channels side by side, once for each
// instruction set. Each value is the same expression everywhere (but for fused multiply-adds, which the portable set
// may lack); sums are taken in the order of the rows, four at a time. No LibTorch here.

/// What normalises a channel: y = (x - mean) * factor + bias; factor = weight / sqrt(variance + eps).
struct ChannelScale {
  const float* mean = nullptr;
  const float* factor = nullptr;
  const float* bias = nullptr;
};

/// What makes x's gradient of the output's: (gradient - mean_gradient - (x - mean) * slope) * factor.
struct ChannelGradient {
  const float* mean_gradient = nullptr;
  const float* slope = nullptr;
};

/// T: float, or std::uint16_t for bfloat16. Pointers without another word are [rows][channels], or [channels] where
/// they are float sums. Sums are added to. Null is not allowed.
template <typename T>
struct BatchNormKernels {
  /// sum += x - shift, squares += (x - shift)^2
  void (*add_sums)(const T* x, std::int64_t rows, std::int64_t channels, const float* shift, float* sum,
                   float* squares);

  void (*normalise)(const T* x, T* y, std::int64_t rows, std::int64_t channels, const ChannelScale& scale);
  void (*normalise_relu)(const T* x, T* y, std::int64_t rows, std::int64_t channels, const ChannelScale& scale);
  /// relu(normalised + shortcut)
  void (*normalise_add_relu)(const T* x, const T* shortcut, T* y, std::int64_t rows, std::int64_t channels,
                             const ChannelScale& scale);

  /// sum += gradient, products += gradient * (x - mean)
  void (*add_gradient_sums)(const T* gradient, const T* x, std::int64_t rows, std::int64_t channels,
                            const ChannelScale& scale, float* sum, float* products);
  /// The same with the gradient below the ReLU of normalise_relu(), whose sign comes from x once more: a multiplication
  /// costs less than to read y.
  void (*add_relu_gradient_sums)(const T* gradient, const T* x, std::int64_t rows, std::int64_t channels,
                                 const ChannelScale& scale, float* sum, float* products);
  /// The same with the gradient below the ReLU of normalise_add_relu(), kept in `below`, which may be `gradient`.
  void (*add_shortcut_gradient_sums)(const T* gradient, const T* y, const T* x, T* below, std::int64_t rows,
                                     std::int64_t channels, const ChannelScale& scale, float* sum, float* products);

  /// x's gradient in `result`, which may be `gradient`.
  void (*input_gradient)(const T* gradient, const T* x, T* result, std::int64_t rows, std::int64_t channels,
                         const ChannelScale& scale, const ChannelGradient& of_sums);
  /// The same from the gradient above the ReLU of normalise_relu().
  void (*relu_input_gradient)(const T* gradient, const T* x, T* result, std::int64_t rows, std::int64_t channels,
                              const ChannelScale& scale, const ChannelGradient& of_sums);
};

struct BatchNormKernelSet {
  const char* name = "";
  BatchNormKernels<float> float32;
  BatchNormKernels<std::uint16_t> bfloat16;
};

extern const BatchNormKernelSet kPortableBatchNorm;
#if defined(__x86_64__)
extern const BatchNormKernelSet kAvx2BatchNorm;    ///< needs AVX2 and FMA
extern const BatchNormKernelSet kAvx512BatchNorm;  ///< needs AVX-512 F, BW, DQ and VL
#endif

/// Those that this CPU can run, the fastest one last.
[[nodiscard]] std::span<const BatchNormKernelSet* const> usable_batch_norm_kernels();

}  // namespace rollcall::model
