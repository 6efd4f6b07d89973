#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/ddp/options.h"
#include "trainer/distributed/ddp/replica.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"

namespace rollcall::parallel {

/// The virtual ranks that a training's results depend on, and the consecutive ones that this process computes. Outside
/// of ExactReplica each process is one virtual rank.
struct VirtualRanks {
  std::int64_t all = 1;    ///< number of virtual ranks of the training
  std::int64_t first = 0;  ///< the first one of this process
  std::int64_t mine = 1;   ///< how many this process computes; 0 if there are more processes than virtual ranks

  friend bool operator==(const VirtualRanks&, const VirtualRanks&) = default;
};

/// Returns the virtual ranks of rank `rank`, out of `all`, in a world of `world_size`. Shares are consecutive and
/// differ by at most one; the first ranks have the larger ones. Rank 0 has virtual rank 0. Pure.
[[nodiscard]] VirtualRanks divide_virtual_ranks(std::int64_t all, std::int64_t rank, std::int64_t world_size);

/// A whole subtree of virtual ranks: `ranks` of them, a power of two, beginning at `first`, a multiple of `ranks`.
struct RankBlock {
  std::int64_t first = 0;
  std::int64_t ranks = 1;

  friend bool operator==(const RankBlock&, const RankBlock&) = default;
};

/// Returns the fewest blocks that cover `mine` virtual ranks beginning at `first`, in order. Pure.
[[nodiscard]] std::vector<RankBlock> blocks_of(std::int64_t first, std::int64_t mine);

/// Data parallelism whose results depend only on the number of virtual ranks, not on the number of processes that
/// compute them: parameters, moments and statistics after any step are bit-identical, even if the number of processes
/// changed in between (accuracy-consistent elasticity; Li et al., EasyScale, SC 2023, separate PyTorch's ranks in the
/// same way).
///
/// A process computes its virtual ranks one after the other, `accumulation` batches each. Each begins a step with the
/// same buffers and with zero gradients. Gradients are added up along one binary tree over the virtual ranks: a process
/// adds up the whole subtrees among its own (RankBlock), usually one. At the step's end, in finish_gradients(), each
/// process gets its part of every such sum (all-to-all), adds up the rest of the tree, and sends the average to all
/// (all-gather): the traffic of one all-reduce if each has one sum. Buffers are then virtual rank 0's on every rank, as
/// DistributedDataParallel's broadcast_buffers makes them before its next step. The result differs from DataParallel's
/// only by the order of additions.
///
/// The cost: no gradient is sent while backward still runs, and besides the gradients being computed up to log2 of this
/// process's virtual ranks of them are kept. Bit-identical results also need the same number of threads in each
/// process.
class ExactReplica final : public Replica {
 public:
  /// Checks that all ranks have parameters of the same shapes, then broadcasts rank 0's values
  /// (broadcast_at_first). Collective. Holds the module, whose gradients become views of one tensor. A null `group` is
  /// a world of one. Errors: (Mismatch) the ranks differ, or parameters are of several types; (Unavailable) a peer was
  /// lost.
  [[nodiscard]] static Result<std::unique_ptr<ExactReplica>> create(std::shared_ptr<torch::nn::Module> module,
                                                                    process_group::Group group,
                                                                    const ExactOptions& options);

  [[nodiscard]] torch::OrderedDict<std::string, at::Tensor> named_parameters() const override {
    return module_->named_parameters();
  }
  [[nodiscard]] at::Tensor forward(const Loss& loss) override;
  [[nodiscard]] at::Tensor evaluate(const Loss& outputs) override;
  /// Does nothing: gradients are averaged in finish_gradients() in any case.
  void set_gradient_sync(bool /*sync*/) override {}
  void zero_grad() override;
  void finish_gradients() override;
  at::Tensor clip_grad_norm(double max_norm) override;
  /// Does nothing: create() leaves nothing to settle.
  [[nodiscard]] Result<void> warm_up(const Loss& /*loss*/) override { return {}; }
  /// Does nothing: buffers are the same on all ranks after each step.
  [[nodiscard]] Result<void> sync_buffers() override { return {}; }

 private:
  ExactReplica(std::shared_ptr<torch::nn::Module> module, process_group::Group group, const ExactOptions& options);

  /// The sum of the gradients of a block's virtual ranks.
  struct BlockSum {
    RankBlock block;
    at::Tensor sum;
  };

  void allocate();
  void begin_gradients();
  void keep_gradients();
  [[nodiscard]] at::Tensor sent_sums() const;
  [[nodiscard]] std::vector<BlockSum> all_to_all_sums();
  [[nodiscard]] at::Tensor average_of(const std::vector<BlockSum>& sums) const;
  static void add(std::vector<BlockSum>& sums, BlockSum more);

  std::shared_ptr<torch::nn::Module> module_;
  process_group::Group group_;
  std::int64_t world_size_;
  std::int64_t accumulation_;
  VirtualRanks ranks_;
  std::vector<at::Tensor> parameters_;  ///< the parameters that take gradients
  std::vector<at::Tensor> buffers_;
  std::int64_t part_ = 0;  ///< number of gradient elements that one process adds up
  at::Tensor gradients_;   ///< [world_size * part]: the current virtual rank's; parameters' gradients are views of it
  std::vector<at::Tensor> places_;  ///< memory for gradients_ and sums_, equally large
  std::vector<BlockSum> sums_;      ///< sums of the virtual ranks computed in this step, laid out as gradients_
  std::vector<at::Tensor> buffers_at_first_;  ///< copies of the buffers at the step's beginning
  std::vector<at::Tensor> buffers_of_first_;  ///< copies of virtual rank 0's buffers after its batches
  std::int64_t batches_ = 0;                  ///< batches of this step so far
};

}  // namespace rollcall::parallel
