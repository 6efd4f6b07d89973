#pragma once

#include <cstddef>
#include <cstdint>

namespace rollcall::device {

// The project's own kernels: what LibTorch does in several passes over memory, in one. A plugin offers them as a table
// of functions (Kernels, below), so that programs can call them that are built without what they are made of.
//
// Activations are [rows][channels], channels side by side: [N, H, W, C] with rows = N * H * W, which may be 0; channels
// are at least 1; of none of them running statistics stay as they are. Their pointers lie on 16 bytes. 16 bytes are
// loaded at once where a row is a multiple of that, else one element. Numbers of a channel are float32, sums and
// moments float64; elements are added up in float32, a thread's and then a block's, and blocks in float64. No atomic
// operations: the same bits in every run and on every GPU (tiling.h).

namespace kernels {

enum class ElementType { Float32, Float16, BFloat16 };

/// Of activations.
struct Shape {
  ElementType type;
  std::int64_t rows;
  std::int64_t channels;
};

/// What follows the normalisation in the same pass: nothing, a ReLU, or first an addition and then the ReLU.
enum class Epilogue { None, Relu, AddRelu };

/// What normalises: (x - mean) * inverse_deviation * weight + bias, each [channels].
struct Affine {
  const float* mean;
  const float* inverse_deviation;
  const float* weight;
  const float* bias;
};

/// What moments become, and where: each [channels], but for count [1], the number of values a channel. Inverse
/// deviations are 1 / sqrt(biased variance + eps). Running statistics take in a part `momentum` of the mean and of the
/// unbiased variance, as LibTorch's; that is NaN where there is one value. Null running statistics: there are none.
struct Statistics {
  float* mean;
  float* inverse_deviation;
  double* count;
  float* running_mean;
  float* running_variance;
  double eps;
  double momentum;
};

/// Levels of pictures to what a model sees, level * scale + bias, rounded once, then to `type`, to nearest even: the
/// bits of data::resize() (trainer/data/image/resize.h) with the same data::ChannelAffine. Reads 3 bytes a pixel and
/// writes 3 elements.
struct NormaliseImages {
  ElementType type;
  std::int64_t pixels;
  const std::uint8_t* levels;  ///< [pixels][3], on 8 bytes
  void* images;                ///< [pixels][3], on 16 bytes
  float scale[3];
  float bias[3];
};

/// Mean and variance of each channel, by Welford's recurrence and Chan's merging (arithmetic.h). Reads x once.
struct BatchNormStatistics {
  Shape shape;
  const void* x;
  void* workspace;  ///< of Kernels::workspace_bytes()
  /// Where not null: moments for Kernels::merge_statistics [2 channels + 1]: means, then sums of squared distances from
  /// them, then the number of values a channel. Then nothing is done with `statistics`.
  double* moments;
  Statistics statistics;
};

/// Statistics of several ranks' batches together (synchronised batch normalisation), ranks in order, so with the same
/// bits on each rank that has the same moments. Batches may differ in size and be empty; no number of them crosses to
/// the host.
struct MergeStatistics {
  std::int64_t ranks;
  std::int64_t channels;
  const double* moments;  ///< [ranks][2 channels + 1]
  Statistics statistics;
};

/// y of x, rounded to the type once; y may be x or `added`. Reads x, and with AddRelu `added`; writes y.
struct BatchNormForward {
  Shape shape;
  Epilogue epilogue;
  const void* x;
  const void* added;  ///< read with AddRelu only
  void* y;
  Affine affine;
};

/// Sums of the gradient below the epilogue, and gradients of weight and bias. The ReLU lets through what made y > 0 (or
/// NaN): with AddRelu by y, and then what it lets through is written down, as the gradient of `added`, too; with Relu
/// by y as x gives it once more, to the bit, which costs less than to read it. Reads gradient and x; with AddRelu y
/// too, and writes `below`.
struct BatchNormBackwardSums {
  Shape shape;
  Epilogue epilogue;
  const void* gradient;
  const void* x;
  const void* y;  ///< read with AddRelu only
  void* below;    ///< written with AddRelu only; may be `gradient`
  Affine affine;
  void* workspace;  ///< of Kernels::workspace_bytes()
  double* sums;  ///< [2 channels]: of the gradient, then of its product with x - mean; ranks with shared statistics add
                 ///< them up
  float* weight_gradient;  ///< [channels], of this rank's batch
  float* bias_gradient;    ///< [channels], of this rank's batch
};

/// The gradient of x. Reads gradient and x, writes x_gradient.
struct BatchNormBackwardInput {
  Shape shape;
  Epilogue epilogue;
  const void* gradient;  ///< with AddRelu `below` of the sums, else the output's
  const void* x;
  void* x_gradient;  ///< may be `gradient`
  Affine affine;
  const double* sums;   ///< those of all ranks that `count` counts
  const double* count;  ///< as Statistics has it
};

/// to[i] = from[i] * scale, computed in float32, rounded to nearest even: gradients into a bucket of another type and
/// back, divided by the number of ranks or of the loss scale. Types of 16 bits go to and from Float32; Float32 also to
/// itself.
struct CastAndScale {
  ElementType from_type;
  ElementType to_type;
  std::int64_t count;
  const void* from;    ///< on 16 bytes
  void* to;            ///< on 16 bytes; may be `from` where the types are equal
  const float* scale;  ///< [1]
};

}  // namespace kernels

/// Every function gives kernels to the calling thread's current stream of the current device, and returns. Nothing
/// waits for the device, nothing is allocated. All pointers are of memory of that device that lives until the stream
/// has passed the kernels. Thread-safe. Throws c10::Error: shapes and pointers that are not as said above, before
/// anything is started; a launch that failed. What fails later is for whoever waits for the device.
struct Kernels {
  /// Of the workspace that batch_norm_statistics and batch_norm_add_relu_backward_sums want, on 8 bytes. What is in it
  /// means nothing after the stream has passed them. Does not throw.
  std::size_t (*workspace_bytes)(const kernels::Shape& shape);
  void (*batch_norm_statistics)(const kernels::BatchNormStatistics& of);
  void (*merge_statistics)(const kernels::MergeStatistics& of);
  void (*batch_norm_add_relu_forward)(const kernels::BatchNormForward& of);
  void (*batch_norm_add_relu_backward_sums)(const kernels::BatchNormBackwardSums& of);
  void (*batch_norm_add_relu_backward_input)(const kernels::BatchNormBackwardInput& of);
  void (*normalise_images)(const kernels::NormaliseImages& of);
  void (*cast_and_scale)(const kernels::CastAndScale& of);
};

}  // namespace rollcall::device
