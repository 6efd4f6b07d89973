#pragma once

#include "trainer/model/batch_norm_passes.h"
#include "trainer/torch.h"

namespace rollcall::model {

/// A torch::nn::BatchNorm2d, with the same parameters and buffers under the same names, and these additions:
/// - relu(), add_relu() and relu_max_pool() fuse the operations that follow it in a ResNet;
/// - share_statistics() makes it normalise in training with the mean and variance of all ranks' batches (synchronised
///   batch normalisation), with one message each way: forward 2 C + 1 numbers, backward 2 C;
/// - use_kernels() makes a device compute the following operations, and the sums over a batch, in the same pass.
///
/// With either of the last two it is one autograd operation (batch_norm_passes.h): with the kernels if they support its
/// input; otherwise, with shared statistics, with LibTorch's operators. Without both it is LibTorch's batch
/// normalisation, and the following operations are separate.
///
/// With shared statistics outputs, running statistics and input gradients are those of one process with the ranks'
/// batches concatenated; ranks may have batches of different size, also empty ones. Gradients of weight and bias are
/// those of the rank's own batch, as data parallelism averages them like all gradients. Every rank must run the same
/// layers in the same order, also in backward. A single value a channel on all ranks together is an error on CPUs; on
/// devices, whose numbers the host does not read, the running variance becomes NaN.
class BatchNormImpl : public torch::nn::BatchNorm2dImpl {
 public:
  explicit BatchNormImpl(std::int64_t channels);

  /// Normalises x: [N, C, H, W], of any floating type. Uses the running statistics in eval mode.
  at::Tensor forward(const at::Tensor& x);
  at::Tensor relu(const at::Tensor& x);
  /// Returns relu(forward(x) + shortcut).
  at::Tensor add_relu(const at::Tensor& x, const at::Tensor& shortcut);
  /// Returns max_pool2d(relu(x), 3, 2, 1).
  at::Tensor relu_max_pool(const at::Tensor& x);

  /// Shares statistics with `ranks`; null: uses the rank's own batch again.
  void share_statistics(c10::intrusive_ptr<StatisticsRanks> ranks);
  /// Uses the kernels of a plugin, which stays loaded; null: none.
  void use_kernels(const device::Kernels* kernels, const device::KernelParts& parts = {});

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

/// Calls BatchNormImpl::use_kernels() for all batch norms of `module`.
void use_kernels(torch::nn::Module& module, const device::Kernels* kernels, const device::KernelParts& parts = {});

/// Returns y for a second use. If a batch norm made y that adds gradients itself, its backward pass then gets two of
/// them, so that autograd does not add them in a pass of its own. Otherwise this is y.
[[nodiscard]] at::Tensor second_use(const at::Tensor& y);

}  // namespace rollcall::model
