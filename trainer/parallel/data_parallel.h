#pragma once

#include <torch/torch.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/process_group/collectives.h"

namespace c10d {
class Reducer;
}

namespace rollcall::parallel {

/// Synchronous data parallelism (DDP) around a module: every rank has a replica, gradients are averaged over the ranks
/// while backward still runs. The algorithm is that of PyTorch's DistributedDataParallel (Li et al., VLDB 2020), by the
/// same c10d::Reducer: buckets of 1 MiB first, then 25 MiB, in the order in which gradients arrive; gradients are views
/// of the buckets.
///
/// A world of one is the same class with nothing to communicate. Main thread only.
class DataParallel {
 public:
  using Loss = std::function<at::Tensor()>;  ///< runs the module on a batch and returns the scalar loss

  /// Checks that all ranks have parameters of the same shapes and types, then gives every rank rank 0's parameters and
  /// buffers. Collective. Holds the module. A null `group` is a world of one. `module` must keep its parameters (no
  /// set_data) afterwards; the optimizer may be made before or after. Errors: (Mismatch) the replicas differ, the same
  /// error on every rank; (Unavailable) a peer was lost.
  [[nodiscard]] static Result<std::unique_ptr<DataParallel>> create(std::shared_ptr<torch::nn::Module> module,
                                                                    process_group::Group group);

  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;
  ~DataParallel();

  /// Broadcasts rank 0's buffers (BatchNorm statistics) to the others, runs `loss` and makes the next backward()
  /// average the gradients. Call backward() on what it returns, once, before the next forward(). Collective, as is that
  /// backward(). Throws what LibTorch throws, as does backward(): a lost peer is a c10::DistError or a
  /// std::runtime_error of Gloo's.
  [[nodiscard]] at::Tensor forward(const Loss& loss);

  /// Before each forward(). Gradients that are views of buckets stay and become 0 (Optimizer::zero_grad would throw);
  /// in a world of one they are released.
  void zero_grad();

  /// One forward and backward on any batch, as small as you like, before the first step: c10d rebuilds its buckets
  /// once, after the first backward, and that changes the order of additions. With it every real step, also the first
  /// after a resume, reduces in the same buckets. Leaves parameters, buffers, gradients (0) and the default random
  /// generator as they were; the module must be in the mode in which it will train. Collective. Nothing to do in a
  /// world of one. Errors (Unavailable): a peer was lost.
  [[nodiscard]] Result<void> warm_up(const Loss& loss);

  /// Gives every rank rank 0's buffers, as each forward() does first: before validation or a checkpoint. Collective.
  [[nodiscard]] Result<void> sync_buffers();

 private:
  DataParallel(std::shared_ptr<torch::nn::Module> module, process_group::Group group);

  [[nodiscard]] Result<void> verify() const;
  void broadcast_state();
  void broadcast_buffers();
  void make_reducer();
  void run_once(const Loss& loss);

  std::shared_ptr<torch::nn::Module> module_;
  process_group::Group group_;
  std::vector<at::Tensor> parameters_;  ///< those that take gradients
  std::vector<at::Tensor> buffers_;
  std::unique_ptr<c10d::Reducer> reducer_;  ///< null in a world of one
};

}  // namespace rollcall::parallel
