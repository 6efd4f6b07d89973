#pragma once

#include <cstddef>
#include <cstdint>

namespace rollcall::device {

// The project's own kernels, which do in one pass over memory what LibTorch does in several. A plugin provides them as
// a table of functions (Kernels, below), so that programs that are built without CUDA can call them.
//
// Activations are [rows][channels] with adjacent channels: [N, H, W, C] with rows = N * H * W, which may be 0, and at
// least 1 channel. With 0 rows running statistics do not change. Pointers to activations are 16-byte aligned. 16 bytes
// are loaded at once if a row is a multiple of that, else one element. Numbers of a channel are float32, sums and
// moments float64; elements are added up in float32, first within a thread and then within a block, and blocks in
// float64. There are no atomic operations: results are bit-identical in every run and on every GPU (tiling.h).

namespace kernels {

enum class ElementType { Float32, Float16, BFloat16 };

/// Type and shape of activations.
struct Shape {
  ElementType type;
  std::int64_t rows;
  std::int64_t channels;
};

/// The operation after the normalisation in the same pass: none, a ReLU, or an addition and then a ReLU.
enum class Epilogue { None, Relu, AddRelu };

/// The parameters of the normalisation (x - mean) * inverse_stddev * weight + bias, each [channels].
struct Affine {
  const float* mean;
  const float* inverse_stddev;
  const float* weight;
  const float* bias;
};

/// The outputs of a statistics kernel, each [channels], except for count [1], the number of values of a channel.
/// inverse_stddev is 1 / sqrt(biased variance + eps). Running statistics are updated with weight `momentum` by the
/// mean and the unbiased variance, as LibTorch's are; the latter is NaN for one value. They may be null.
struct Statistics {
  float* mean;
  float* inverse_stddev;
  double* count;
  float* running_mean;
  float* running_variance;
  double eps;
  double momentum;
};

/// Normalises uint8 images: value * scale + bias, rounded once, then rounded to `type`, to nearest even. The result is
/// bit-identical to that of data::resize() (trainer/data/image/resize.h) with the same data::ChannelAffine. Reads 3
/// bytes a pixel and writes 3 elements.
struct NormaliseImages {
  ElementType type;
  std::int64_t pixels;
  const std::uint8_t* levels;  ///< [pixels][3], 8-byte aligned
  void* images;                ///< [pixels][3], 16-byte aligned
  float scale[3];
  float bias[3];
};

/// Computes mean and variance of each channel with Welford's recurrence and Chan's merging (arithmetic.h). Reads x
/// once.
struct BatchNormStatistics {
  Shape shape;
  const void* x;
  void* workspace;  ///< of Kernels::workspace_bytes()
  /// Receives, unless null, moments for Kernels::merge_statistics [2 channels + 1]: means, then sums of squared
  /// distances from them, then the number of values of a channel. `statistics` are not written then.
  double* moments;
  Statistics statistics;
};

/// Merges the statistics of several ranks' batches (synchronised batch normalisation) in rank order, so that the result
/// is bit-identical on all ranks. Batches may differ in size and be empty; the host reads no numbers.
struct MergeStatistics {
  std::int64_t ranks;
  std::int64_t channels;
  const double* moments;  ///< [ranks][2 channels + 1]
  Statistics statistics;
};

/// Computes y from x, rounded to the type once; y may be x or `added`. Reads x, and with AddRelu `added`; writes y.
struct BatchNormForward {
  Shape shape;
  Epilogue epilogue;
  const void* x;
  const void* added;  ///< read with AddRelu only
  void* y;
  Affine affine;
};

/// Computes sums of the gradient before the epilogue, and the gradients of weight and bias. The ReLU passes gradients
/// on if y > 0 (or NaN). With AddRelu y is read, and the result, which is also the gradient of `added`, is written to
/// `below`. With Relu y is computed from x again, bit-identical, which costs less than reading it. Reads gradient and
/// x.
struct BatchNormBackwardSums {
  Shape shape;
  Epilogue epilogue;
  const void* gradient;
  const void* x;
  const void* y;  ///< read with AddRelu only
  void* below;    ///< written with AddRelu only; may be `gradient`
  Affine affine;
  void* workspace;  ///< of Kernels::workspace_bytes()
  double* sums;  ///< [2 channels]: of the gradient, then of its product with x - mean; synchronised ranks add them up
  float* weight_gradient;  ///< [channels], of this rank's batch
  float* bias_gradient;    ///< [channels], of this rank's batch
};

/// Computes the gradient of x. Reads gradient and x, writes x_gradient.
struct BatchNormBackwardInput {
  Shape shape;
  Epilogue epilogue;
  const void* gradient;  ///< `below` of BatchNormBackwardSums with AddRelu, else the output's gradient
  const void* x;
  void* x_gradient;  ///< may be `gradient`
  Affine affine;
  const double* sums;   ///< added up over all ranks whose values `count` counts
  const double* count;  ///< Statistics::count
};

/// Computes to[i] = from[i] * scale in float32, rounded to nearest even. It copies gradients into a bucket of another
/// type and back, divided by the number of ranks or the loss scale. One of the types is Float32.
struct CastAndScale {
  ElementType from_type;
  ElementType to_type;
  std::int64_t count;
  const void* from;    ///< 16-byte aligned
  void* to;            ///< 16-byte aligned; may be `from` if the types are equal
  const float* scale;  ///< [1]
};

}  // namespace kernels

/// A table of kernels. Every function enqueues kernels on the calling thread's current stream of the current device,
/// and returns without waiting for the device. It allocates nothing. All pointers are to memory of that device that
/// must stay valid until the stream has run the kernels. Thread-safe. Throws c10::Error for shapes and pointers that
/// break the rules above, before anything is enqueued, and after a failed launch. Later failures show when the device
/// is waited for.
struct Kernels {
  /// Returns the bytes of the workspace, 8-byte aligned, for batch_norm_statistics and
  /// batch_norm_add_relu_backward_sums. Its content is not needed after they have run. Does not throw.
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
