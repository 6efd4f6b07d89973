#pragma once

#include "trainer/model/batch_norm_passes.h"

namespace rollcall::model {

/// Passes that share sums, which ranks add up: one message of 2 C + 1 numbers forward and one of 2 C backward. Sums are
/// float64, so that neither their number nor a mean far from 0 costs digits.
class SumPasses : public BatchNormPasses {
 public:
  BatchStatistics statistics(const at::Tensor& x, const RunningStatistics& running, StatisticsRanks* ranks) const final;
  Gradients backward(at::Tensor gradient, const Normalised& of, StatisticsRanks* ranks) const final;

 protected:
  /// The gradient on its way from the output to x.
  struct OutputGradient {
    at::Tensor values;        ///< of x's shape; with AddRelu it is the gradient of the shortcut, too
    bool above_relu = false;  ///< `values` are still those above the epilogue's ReLU
    /// [2 C]: of the gradient below the epilogue, for each channel its sum, then for each that of its product with
    /// x - mean.
    at::Tensor sums;
  };

  /// [2 C + 1]: for each channel the sum of x, then for each the sum of its squares, then the number of values a
  /// channel.
  [[nodiscard]] virtual at::Tensor input_sums(const at::Tensor& x) const = 0;
  /// Takes `gradient`, and may reuse its memory where nobody else has it.
  [[nodiscard]] virtual OutputGradient below_epilogue(at::Tensor gradient, const Normalised& of) const = 0;
  /// The gradient of x. `gradient.sums` are of all ranks that `of.count` counts.
  [[nodiscard]] virtual at::Tensor input_gradient(OutputGradient gradient, const Normalised& of) const = 0;
};

}  // namespace rollcall::model
