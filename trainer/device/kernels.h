#pragma once

#include <cstddef>
#include <cstdint>

namespace rollcall::device {

// The project's own kernels, which do in one pass over memory what LibTorch does in several. A plugin provides them as
// a table of functions (Kernels, below), so that programs that are built without CUDA can call them.
//
// Activations are [rows][channels] with adjacent channels: [N, H, W, C] with rows = N * H * W, which may be 0, and at
// least 1 channel. They are less than 2^31 - 4096 rows. With 0 rows running statistics do not change. Pointers to
// activations are 16-byte aligned. 16 bytes are loaded at once if a row is a multiple of that, else one element.
// Numbers of a channel are float32, sums and moments float64; elements are added up in float32, first within a thread
// and then within a block, and blocks in float64. No sum is made by atomic operations: results are bit-identical in
// every run and on every GPU (tiling.h).
//
// The passes of a layer: forward computes statistics and then the output, backward computes sums and then the input's
// gradient. `backwards` makes the second pass visit the rows from the last one to the first, so that it begins with
// those that the first pass has left in the GPU's cache. No result depends on it.

namespace kernels {

enum class ElementType { Float32, Float16, BFloat16 };

/// Type and shape of activations.
struct Shape {
  ElementType type;
  std::int64_t rows;
  std::int64_t channels;
};

/// The operation after the normalisation in the same pass: none, a ReLU, an addition and then a ReLU, or a ReLU and
/// then max pooling (3 x 3 windows, stride 2, padding 1, as at::max_pool2d).
enum class Epilogue { None, Relu, AddRelu, ReluMaxPool };

/// With ReluMaxPool x is [N][height][width][channels], and y and the gradient are [N][(height + 1) / 2][(width + 1) /
/// 2][channels]. Otherwise unused.
struct Image {
  std::int64_t height;
  std::int64_t width;
};

/// The number of `counters` for a channel, for results that are merged in the kernel that has made them.
inline constexpr std::int64_t kCountersOfAChannel = 17;

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
  /// [kCountersOfAChannel * channels] zeros, which the kernels leave zero again: the last blocks to finish merge all
  /// blocks' results, in the order that the shape decides. Null: a kernel of its own merges them, bit-identical.
  std::uint32_t* counters;
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

/// Computes y from x, rounded to the type once; y may be x or `added`, except with ReluMaxPool. Reads x, and with
/// AddRelu `added`; writes y, with ReluMaxPool a quarter of x.
struct BatchNormForward {
  Shape shape;  ///< of x
  Epilogue epilogue;
  const void* x;
  const void* added;  ///< read with AddRelu only
  void* y;
  /// Receives with AddRelu, unless null, what the backward pass needs of y: a bit an element, set if y > 0 (or NaN), in
  /// Kernels::mask_bytes(). With ReluMaxPool, unless null, a byte for each element of y: which of its 9 values is the
  /// largest, the first of equal ones, in rows.
  std::uint8_t* kept;
  Affine affine;
  Image image;
  bool backwards;
};

/// The gradients of y. Two are added first, and rounded to the type, as autograd adds them.
struct OutputGradients {
  const void* first;
  const void* second;  ///< null: there is one
};

/// Computes sums of the gradient before the epilogue, and the gradients of weight and bias. The ReLU passes gradients
/// on if y > 0 (or NaN). With AddRelu `kept` or y is read, and the result, which is also the gradient of `added`, is
/// written to `below`. With Relu y is computed from x again, bit-identical, which costs less than reading it. With
/// ReluMaxPool, in addition, a value that is the largest of several windows adds their gradients in the order of the
/// windows, each sum rounded to the type, as LibTorch does on CPUs. Reads gradients and x.
struct BatchNormBackwardSums {
  Shape shape;  ///< of x
  Epilogue epilogue;
  OutputGradients gradients;  ///< two only with AddRelu and ReluMaxPool
  const void* x;
  const void* y;             ///< read with AddRelu only, if `kept` is null
  const std::uint8_t* kept;  ///< BatchNormForward::kept; not null with ReluMaxPool
  void* below;               ///< written with AddRelu only; may be one of the gradients
  Affine affine;
  Image image;
  void* workspace;          ///< of Kernels::workspace_bytes()
  std::uint32_t* counters;  ///< as BatchNormStatistics::counters
  double* sums;  ///< [2 channels]: of the gradient, then of its product with x - mean; synchronised ranks add them up
  float* weight_gradient;  ///< [channels], of this rank's batch
  float* bias_gradient;    ///< [channels], of this rank's batch
};

/// Computes the gradient of x. Reads gradient and x, writes x_gradient.
struct BatchNormBackwardInput {
  Shape shape;
  Epilogue epilogue;
  OutputGradients gradients;  ///< `below` of BatchNormBackwardSums with AddRelu, else the same as there
  const void* x;
  const std::uint8_t* kept;  ///< read with ReluMaxPool only
  void* x_gradient;          ///< may be the gradient, except with ReluMaxPool
  Affine affine;
  Image image;
  const double* sums;   ///< added up over all ranks whose values `count` counts
  const double* count;  ///< Statistics::count
  bool backwards;
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
  /// Returns the bytes of BatchNormForward::kept with AddRelu. Does not throw.
  std::size_t (*mask_bytes)(const kernels::Shape& shape);
  void (*batch_norm_statistics)(const kernels::BatchNormStatistics& of);
  void (*merge_statistics)(const kernels::MergeStatistics& of);
  void (*batch_norm_add_relu_forward)(const kernels::BatchNormForward& of);
  void (*batch_norm_add_relu_backward_sums)(const kernels::BatchNormBackwardSums& of);
  void (*batch_norm_add_relu_backward_input)(const kernels::BatchNormBackwardInput& of);
  void (*normalise_images)(const kernels::NormaliseImages& of);
  void (*cast_and_scale)(const kernels::CastAndScale& of);
};

}  // namespace rollcall::device
