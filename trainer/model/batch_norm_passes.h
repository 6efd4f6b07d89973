#pragma once

#include <torch/torch.h>

namespace rollcall::model {

// The four passes over a batch that batch normalisation (Ioffe and Szegedy 2015) takes in training. Between the first
// and the second, and between the third and the fourth, stand a few numbers a channel: those are what ranks add up to
// normalise with the batch of all of them.
//
// x, y and gradients: [N, C, H, W], any floating type, device and layout; N may be 0. Statistics and `weight`, `bias`:
// [C] in statistics_type(x). Sums: float64, so that neither their number nor a mean far from 0 costs digits.
// None of them records gradients. Thread-safe on distinct tensors.

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

/// What follows the normalisation in the same pass.
struct Epilogue {
  at::Tensor shortcut;  ///< added, of x's shape; undefined: nothing is
  bool relu = false;
};

/// y = (x - mean) * inverse_deviation * weight + bias, then the epilogue. Has x's type and layout.
[[nodiscard]] at::Tensor normalise(const at::Tensor& x, const BatchStatistics& statistics, const at::Tensor& weight,
                                   const at::Tensor& bias, const Epilogue& epilogue);

/// The gradient as it is below the epilogue, and its sums.
struct OutputGradient {
  at::Tensor values;  ///< of x's shape: also the gradient of the shortcut
  at::Tensor sums;    ///< [2 C]: for each channel the sum of values, then for each that of values * (x - mean)
};

/// `y` is what normalise() returned; looked at only where there was a ReLU.
[[nodiscard]] OutputGradient below_epilogue(const at::Tensor& gradient, const at::Tensor& y, const at::Tensor& x,
                                            const BatchStatistics& statistics, bool relu);

/// The gradient of x. `sums` are those of below_epilogue(), of all ranks that statistics.count counts.
[[nodiscard]] at::Tensor input_gradient(const at::Tensor& values, const at::Tensor& x,
                                        const BatchStatistics& statistics, const at::Tensor& weight,
                                        const at::Tensor& sums);

}  // namespace rollcall::model
