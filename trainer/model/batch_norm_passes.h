#pragma once

#include <torch/torch.h>

namespace rollcall::model {

// The four passes over a batch that batch normalisation (Ioffe and Szegedy 2015) takes in training. Between the first
// and the second, and between the third and the fourth, stand a few numbers a channel: those are what ranks add up to
// normalise with the batch of all of them.
//
// x, y and gradients: [N, C, H, W], any floating type, device and layout; N may be 0. Statistics, weight and bias: [C]
// in statistics_type(x). Sums: float64, so that neither their number nor a mean far from 0 costs digits. None of them
// records gradients. Main thread only. Channels-last memory on a CPU, float32 or bfloat16, by the loops of
// batch_norm_kernels.h; elsewhere LibTorch's operators.

/// float64 for float64, else float32.
[[nodiscard]] at::ScalarType statistics_type(const at::Tensor& x);

/// [2 C + 1]: for each channel the sum of x, then for each the sum of its squares, then the number of values a channel.
[[nodiscard]] at::Tensor input_sums(const at::Tensor& x);

/// A batch's channels; `count` is the number of values of each.
struct BatchStatistics {
  at::Tensor mean;
  at::Tensor variance;           ///< biased: divided by count
  at::Tensor inverse_deviation;  ///< 1 / sqrt(variance + eps)
  double count = 0;
};

/// From sums as input_sums() gives them, added up over as many ranks as wanted. `type` is that of the statistics.
/// Throws c10::Error where a channel has less than two values: those have no variance.
[[nodiscard]] BatchStatistics statistics_of(const at::Tensor& sums, double eps, at::ScalarType type);

/// (x - mean) * inverse_deviation * weight + bias
struct Affine {
  BatchStatistics statistics;
  at::Tensor weight;
  at::Tensor bias;
};

/// What follows the normalisation in the same pass: nothing, a ReLU, or first an addition and then the ReLU.
enum class Epilogue { None, Relu, AddRelu };

/// x normalised, then the epilogue; `shortcut`, of x's shape, is what AddRelu adds. Has x's type and layout.
[[nodiscard]] at::Tensor normalise(const at::Tensor& x, const Affine& affine, Epilogue epilogue,
                                   const at::Tensor& shortcut);

/// The gradient on its way from the output to x.
struct OutputGradient {
  at::Tensor values;        ///< of x's shape; with AddRelu it is the gradient of the shortcut, too
  bool above_relu = false;  ///< `values` are still those above the epilogue's ReLU
  /// [2 C]: of the gradient below the epilogue, for each channel its sum, then for each that of its product with
  /// x - mean.
  at::Tensor sums;
};

/// `y` is what normalise() returned. Takes `gradient`, and may reuse its memory where nobody else has it.
[[nodiscard]] OutputGradient below_epilogue(at::Tensor gradient, const at::Tensor& y, const at::Tensor& x,
                                            const Affine& affine, Epilogue epilogue);

/// The gradient of x. `gradient.sums` are of all ranks that statistics.count counts.
[[nodiscard]] at::Tensor input_gradient(OutputGradient gradient, const at::Tensor& x, const Affine& affine);

}  // namespace rollcall::model
