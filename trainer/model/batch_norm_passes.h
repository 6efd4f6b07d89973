#pragma once

#include "trainer/device/kernels.h"
#include "trainer/torch.h"

namespace rollcall::model {

// What batch normalisation (Ioffe and Szegedy 2015) in training does to a batch, with what follows it: statistics, from
// which the output is made, and backward sums, from which the input's gradient is made. Between the two of each pair
// stand a few numbers a channel, and those are what ranks share to normalise with the batch of all of them.
//
// x, y and their gradients: [N, C, H, W], any floating type, device and layout; N may be 0. Statistics, weight and
// bias: [C], float64 for an x of float64, else float32. None of it records gradients. Nothing of it is decided by
// values of a device, so that the host does not wait for one.

using device::kernels::Epilogue;

/// The ranks that normalise with the batches of all of them together. The model knows no more of parallelism.
/// Collective; throws what c10d throws.
class StatisticsRanks : public torch::CustomClassHolder {
 public:
  /// [ranks, n], in the ranks' order: the `mine` of each, float64, [n].
  virtual at::Tensor gather(const at::Tensor& mine) = 0;
  /// Replaces `sums` (float64, one dimension, the same length on every rank) by its sum over all ranks, the same bits
  /// on each.
  virtual void add_up(at::Tensor& sums) = 0;
};

/// Of the batches of all ranks that share them.
struct BatchStatistics {
  at::Tensor mean;
  at::Tensor inverse_deviation;  ///< 1 / sqrt(biased variance + eps)
  at::Tensor count;              ///< [1] float64: values of each channel
};

/// Takes in a part `momentum` of each batch's mean and unbiased variance.
struct RunningStatistics {
  at::Tensor mean;
  at::Tensor variance;
  double momentum;
  double eps;
};

/// (x - mean) * inverse_deviation * weight + bias
struct Affine {
  at::Tensor mean;
  at::Tensor inverse_deviation;
  at::Tensor weight;
  at::Tensor bias;
};

/// What the forward pass leaves to the one backward.
struct Normalised {
  at::Tensor x;
  at::Tensor y;  ///< undefined with Epilogue::None
  Affine affine;
  at::Tensor count;  ///< of BatchStatistics
  Epilogue epilogue;
};

/// Those of weight and bias are of this rank's own batch, as all gradients that data parallelism averages then.
struct Gradients {
  at::Tensor x;
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor shortcut;  ///< with Epilogue::AddRelu
};

/// Who computes it.
class BatchNormPasses : public torch::CustomClassHolder {
 public:
  /// Of x, and of the batches of `ranks` (null: x alone); `running` takes them in.
  [[nodiscard]] virtual BatchStatistics statistics(const at::Tensor& x, const RunningStatistics& running,
                                                   StatisticsRanks* ranks) const = 0;
  /// x normalised, then the epilogue; `shortcut`, of x's shape, is what AddRelu adds. Has x's type and layout.
  [[nodiscard]] virtual at::Tensor normalise(const at::Tensor& x, const Affine& affine, Epilogue epilogue,
                                             const at::Tensor& shortcut) const = 0;
  /// Takes the output's `gradient`, and may reuse its memory where nobody else has it. `ranks` as for statistics().
  [[nodiscard]] virtual Gradients backward(at::Tensor gradient, const Normalised& of, StatisticsRanks* ranks) const = 0;
};
using BatchNormPassesPtr = c10::intrusive_ptr<BatchNormPasses>;

/// By the project's own kernels of a device, on the current stream; for what kernels_take(). One value a channel in all
/// has no variance, and makes the running one NaN.
[[nodiscard]] BatchNormPassesPtr kernel_passes(const device::Kernels& kernels);

/// float32, float16 and bfloat16 in channels-last memory of a device, with a weight of float32.
[[nodiscard]] bool kernels_take(const at::Tensor& x, const at::Tensor& weight);

/// By LibTorch's operators: whatever they take. On CPUs it throws c10::Error where a channel has less than two values
/// in all.
[[nodiscard]] BatchNormPassesPtr operator_passes();

}  // namespace rollcall::model
