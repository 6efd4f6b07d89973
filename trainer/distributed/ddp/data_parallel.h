#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/device/kernels.h"
#include "trainer/distributed/ddp/options.h"
#include "trainer/distributed/ddp/replica.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"

namespace c10d {
class Logger;
class Reducer;
}  // namespace c10d

namespace rollcall::parallel {

/// Trains a module with synchronous data parallelism (DDP): every rank has a replica, and gradients are averaged over
/// the ranks while backward still runs. The algorithm is that of PyTorch's DistributedDataParallel (Li et al., VLDB
/// 2020), with the same c10d::Reducer: a first bucket of 1 MiB, then buckets of 25 MiB, in the order in which gradients
/// arrive. Gradients are views of the buckets.
///
/// Every rank takes part in every step. There is no join() for ranks that run out of data: the sampler gives all ranks
/// equally many batches.
///
/// In a world of one the class communicates nothing. Main thread only.
class DataParallel final : public Replica {
 public:
  /// Checks that all ranks have parameters of the same shapes and types, then gives every rank rank 0's parameters and
  /// buffers (broadcast_at_first). Collective. Holds the module. A null `group` is a world of one. `module` must keep
  /// its parameters (no set_data) afterwards; the optimizer may be made before or after. Errors: (Mismatch) the
  /// replicas differ, the same error on every rank; (Unavailable) a peer was lost.
  [[nodiscard]] static Result<std::unique_ptr<DataParallel>> create(std::shared_ptr<torch::nn::Module> module,
                                                                    process_group::Group group,
                                                                    const DataParallelOptions& options = {});

  ~DataParallel() override;

  [[nodiscard]] torch::OrderedDict<std::string, at::Tensor> named_parameters() const override {
    return module_->named_parameters();
  }

  /// Broadcasts rank 0's buffers (BatchNorm statistics) to the others first, once a step.
  [[nodiscard]] at::Tensor forward(const Loss& loss) override;
  [[nodiscard]] at::Tensor evaluate(const Loss& outputs) override;

  void set_gradient_sync(bool sync) override { sync_ = sync; }

  /// Sets gradients, which are views of buckets, to 0 (Optimizer::zero_grad would throw); in a world of one releases
  /// them.
  void zero_grad() override;
  at::Tensor clip_grad_norm(double max_norm) override;

  /// Makes c10d rebuild its buckets, which it does once, after the first backward, and which changes the order of
  /// additions. Afterwards every real step, also the first after a resume, reduces in the same buckets. The module must
  /// be in the mode in which it will train. Does nothing in a world of one.
  [[nodiscard]] Result<void> warm_up(const Loss& loss) override;
  [[nodiscard]] std::vector<std::int64_t> gradient_order() const override { return options_.gradient_order; }
  [[nodiscard]] Result<void> sync_buffers() override;

 private:
  DataParallel(std::shared_ptr<torch::nn::Module> module, process_group::Group group,
               const DataParallelOptions& options);

  void broadcast_state() const;
  void make_reducer();
  void delay_static_graph(const at::Tensor& loss);
  void run_once(const Loss& loss);
  [[nodiscard]] std::vector<unsigned> note_arrivals(std::vector<std::int64_t>& order) const;

  std::shared_ptr<torch::nn::Module> module_;
  process_group::Group group_;
  DataParallelOptions options_;
  std::vector<at::Tensor> parameters_;  ///< the parameters that take gradients
  std::vector<at::Tensor> buffers_;
  bool first_backward_ = true;              ///< whether no backward has reduced yet
  bool sync_ = true;                        ///< whether the next backward reduces
  bool step_began_ = false;                 ///< whether this step has had a forward
  std::shared_ptr<c10d::Reducer> reducer_;  ///< null in a world of one
  std::shared_ptr<c10d::Logger> logger_;    ///< called by the Reducer's search for unused parameters
};

}  // namespace rollcall::parallel
