#pragma once

#include "trainer/torch.h"

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

/// Adds up statistics over the ranks that share them. The model knows no more of parallelism.
class StatisticsSum : public torch::CustomClassHolder {
 public:
  /// Replaces `sums` (float64, one dimension, the same length on every rank) by its sum over all ranks, the same bits
  /// on each. Collective; throws what c10d throws.
  virtual void add_up(at::Tensor& sums) = 0;
};

/// torch::nn::BatchNorm2d, with the same parameters and buffers under the same names, and more:
/// - relu() and add_relu(), the pairs and triples of operations that a ResNet has;
/// - share_statistics(): in training it normalises with the mean and variance of all ranks' batches together
///   (synchronised batch normalisation), one message each way: forward 2 C + 1 numbers, backward 2 C. Otherwise, and in
///   evaluation, it is LibTorch's operators, one after the other.
///
/// With shared statistics outputs, running statistics and input gradients are those of one process with the ranks'
/// batches one after the other; ranks may have batches of different size, also none. Gradients of weight and bias are
/// of the rank's own batch, as all gradients that data parallelism averages then. Every rank must run the same layers
/// in the same order, backward as well.
class BatchNormImpl : public torch::nn::BatchNorm2dImpl {
 public:
  explicit BatchNormImpl(std::int64_t channels);

  /// x: [N, C, H, W], any floating type. In eval mode with the running statistics.
  at::Tensor forward(const at::Tensor& x);
  at::Tensor relu(const at::Tensor& x);
  /// relu(forward(x) + shortcut).
  at::Tensor add_relu(const at::Tensor& x, const at::Tensor& shortcut);

  /// Null: the rank's own batch again.
  void share_statistics(c10::intrusive_ptr<StatisticsSum> ranks);

 private:
  at::Tensor run(const at::Tensor& x, Epilogue epilogue, const at::Tensor& shortcut);
  at::Tensor run_shared(const at::Tensor& x, Epilogue epilogue, const at::Tensor& shortcut);
  at::Tensor run_by_torch(const at::Tensor& x, Epilogue epilogue, const at::Tensor& shortcut);
  void update_running_statistics(const BatchStatistics& batch);

  c10::intrusive_ptr<StatisticsSum> ranks_;
};
TORCH_MODULE(BatchNorm);

}  // namespace rollcall::model
