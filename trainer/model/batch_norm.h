#pragma once

#include <torch/torch.h>

#include "trainer/model/batch_norm_passes.h"

namespace rollcall::model {

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
