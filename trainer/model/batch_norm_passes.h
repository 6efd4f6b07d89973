#pragma once

#include "trainer/device/arithmetic.h"
#include "trainer/device/kernels.h"
#include "trainer/torch.h"

namespace rollcall::model {

// The passes of batch normalisation (Ioffe and Szegedy 2015) in training, with the operations that follow it. Forward
// computes statistics and then the output, backward computes sums and then the input's gradient. Between the two passes
// are a few numbers a channel, which ranks exchange for synchronised batch normalisation.
//
// x, y and their gradients are [N, C, H, W], of any floating type, device and layout; N may be 0. Statistics, weight
// and bias are [C], float64 for an x of float64, else float32. No pass records gradients. No decision depends on values
// of a device, so the host never waits for one.

using device::kernels::Epilogue;

/// The collectives of the ranks that share statistics; the model has no other communication. Collective; throws what
/// c10d throws.
class StatisticsRanks : public torch::CustomClassHolder {
 public:
  /// Returns [ranks, n]: the `mine` of each rank, [n] float64, in rank order.
  virtual at::Tensor gather(const at::Tensor& mine) = 0;
  /// Replaces `sums` (float64, one dimension, the same length on every rank) by its sum over all ranks, bit-identical
  /// on each.
  virtual void add_up(at::Tensor& sums) = 0;
};

/// Statistics of the batches of all ranks that share them.
struct BatchStatistics {
  at::Tensor mean;
  at::Tensor inverse_stddev;  ///< 1 / sqrt(biased variance + eps)
  at::Tensor count;           ///< [1] float64: number of values of each channel
};

/// Running statistics, updated with weight `momentum` by each batch's mean and unbiased variance.
struct RunningStatistics {
  at::Tensor mean;
  at::Tensor variance;
  double momentum;
  double eps;
};

/// The parameters of (x - mean) * inverse_stddev * weight + bias.
struct Affine {
  at::Tensor mean;
  at::Tensor inverse_stddev;
  at::Tensor weight;
  at::Tensor bias;
};

/// The output, and what of it the backward pass needs: itself, a bit an element (whether it is above 0), or with
/// ReluMaxPool a byte an element (which value is the largest). Undefined with Epilogue::None, and if not wanted.
struct Output {
  at::Tensor y;
  at::Tensor kept;
};

/// The values that the forward pass saves for the backward pass.
struct Normalised {
  at::Tensor x;
  at::Tensor kept;  ///< Output::kept
  Affine affine;
  at::Tensor count;  ///< BatchStatistics::count
  Epilogue epilogue;
};

/// The gradients. Those of weight and bias are of this rank's own batch; data parallelism averages them like all
/// others.
struct Gradients {
  at::Tensor x;
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor shortcut;  ///< set with Epilogue::AddRelu
};

/// An implementation of the passes.
class BatchNormPasses : public torch::CustomClassHolder {
 public:
  /// Computes the statistics of x together with the batches of `ranks` (null: of x alone), and updates `running`.
  [[nodiscard]] virtual BatchStatistics statistics(const at::Tensor& x, const RunningStatistics& running,
                                                   StatisticsRanks* ranks) const = 0;
  /// Normalises x and applies the epilogue; AddRelu adds `shortcut`, of x's shape. The output has x's type and layout.
  /// `keeps`: whether Output::kept is wanted.
  [[nodiscard]] virtual Output normalise(const at::Tensor& x, const Affine& affine, Epilogue epilogue,
                                         const at::Tensor& shortcut, bool keeps) const = 0;
  /// Computes the gradients from the output's, whose memory it may reuse if there is no other reference to it. `second`
  /// is undefined, or is added to `first`. `ranks` as for statistics().
  [[nodiscard]] virtual Gradients backward(at::Tensor first, at::Tensor second, const Normalised& of,
                                           StatisticsRanks* ranks) const = 0;
  /// Returns whether backward() adds two gradients of an output with this epilogue in its own pass.
  [[nodiscard]] virtual bool adds_gradients(Epilogue epilogue) const = 0;
  /// Returns whether there is Epilogue::ReluMaxPool.
  [[nodiscard]] virtual bool pools() const = 0;
};
using BatchNormPassesPtr = c10::intrusive_ptr<BatchNormPasses>;

/// Returns the implementation with the project's own kernels of a device, on the current stream, for inputs that
/// kernels_take(). A single value a channel has no variance, and makes the running variance NaN. It is for one layer:
/// calls are one after the other, on one stream.
[[nodiscard]] BatchNormPassesPtr kernel_passes(const device::Kernels& kernels, const device::KernelParts& parts);

/// Returns whether the kernels support the input: float32, float16 or bfloat16 in channels-last memory of a device,
/// with a float32 weight.
[[nodiscard]] bool kernels_take(const at::Tensor& x, const at::Tensor& weight);

/// Returns the implementation with LibTorch's operators, for any input that they support. On CPUs it throws c10::Error
/// if a channel has less than two values in all.
[[nodiscard]] BatchNormPassesPtr operator_passes();

}  // namespace rollcall::model
