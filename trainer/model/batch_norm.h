#pragma once

#include "trainer/model/batch_norm_passes.h"
#include "trainer/torch.h"

namespace rollcall::model {

/// torch::nn::BatchNorm2d, with the same parameters and buffers under the same names, and more:
/// - relu() and add_relu(), the pairs and triples of operations that a ResNet has;
/// - share_statistics(): in training it normalises with the mean and variance of all ranks' batches together
///   (synchronised batch normalisation), one message each way: forward 2 C + 1 numbers, backward 2 C;
/// - use_kernels(): what follows the normalisation, and the sums over a batch, cost a device no passes of their own.
///
/// With either of the last two it is one operation with one gradient (batch_norm_passes.h): by the kernels where they
/// take its input; else, with shared statistics, by LibTorch's operators. Otherwise it is
/// LibTorch's batch normalisation, and what follows one after the other.
///
/// With shared statistics outputs, running statistics and input gradients are those of one process with the ranks'
/// batches one after the other; ranks may have batches of different size, also none. Gradients of weight and bias are
/// of the rank's own batch, as all gradients that data parallelism averages then. Every rank must run the same layers
/// in the same order, backward as well. One value a channel in all is an error on CPUs; on devices, whose numbers the
/// host does not read, the running variance is NaN then.
class BatchNormImpl : public torch::nn::BatchNorm2dImpl {
 public:
  explicit BatchNormImpl(std::int64_t channels);

  /// x: [N, C, H, W], any floating type. In eval mode with the running statistics.
  at::Tensor forward(const at::Tensor& x);
  at::Tensor relu(const at::Tensor& x);
  /// relu(forward(x) + shortcut).
  at::Tensor add_relu(const at::Tensor& x, const at::Tensor& shortcut);

  /// Null: the rank's own batch again.
  void share_statistics(c10::intrusive_ptr<StatisticsRanks> ranks);
  /// Of a plugin, which stays loaded. Null: none.
  void use_kernels(const device::Kernels* kernels);

 private:
  at::Tensor run(const at::Tensor& x, Epilogue epilogue, const at::Tensor& shortcut);
  at::Tensor run_at_once(const BatchNormPassesPtr& passes, const at::Tensor& x, Epilogue epilogue,
                         const at::Tensor& shortcut);
  at::Tensor run_by_torch(const at::Tensor& x, Epilogue epilogue, const at::Tensor& shortcut);
  [[nodiscard]] BatchNormPassesPtr passes_for(const at::Tensor& x) const;

  c10::intrusive_ptr<StatisticsRanks> ranks_;
  BatchNormPassesPtr kernels_;
};
TORCH_MODULE(BatchNorm);

/// All batch norms of `module`; see BatchNormImpl::use_kernels().
void use_kernels(torch::nn::Module& module, const device::Kernels* kernels);

}  // namespace rollcall::model
