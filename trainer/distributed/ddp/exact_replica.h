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

/// The ranks that a training's arithmetic knows, and which consecutive ones of them this process computes. Elsewhere
/// than in ExactReplica each process is one of them.
struct VirtualRanks {
  std::int64_t all = 1;
  std::int64_t first = 0;
  std::int64_t mine = 1;  ///< 0 where there are more processes than virtual ranks

  friend bool operator==(const VirtualRanks&, const VirtualRanks&) = default;
};

/// Rank `rank`'s of `all` virtual ranks in a world of `world_size`: as equal as they can be, in order, the first ranks
/// having one more. Rank 0 has virtual rank 0. Pure.
[[nodiscard]] VirtualRanks divide_virtual_ranks(std::int64_t all, std::int64_t rank, std::int64_t world_size);

/// A whole subtree: `ranks` virtual ranks, a power of two, from `first`, a multiple of it, on.
struct RankBlock {
  std::int64_t first = 0;
  std::int64_t ranks = 1;

  friend bool operator==(const RankBlock&, const RankBlock&) = default;
};

/// The fewest blocks that make up `mine` virtual ranks from `first` on, in order. Pure.
[[nodiscard]] std::vector<RankBlock> blocks_of(std::int64_t first, std::int64_t mine);

/// Data parallelism whose results depend on the number of virtual ranks alone, not on how many processes compute them:
/// parameters, moments and statistics after any step are equal bit for bit, also where the number of processes changed
/// in between (accuracy-consistent elasticity; Li et al., EasyScale, SC 2023, keep PyTorch's ranks apart in the same
/// way).
///
/// A process computes its virtual ranks one after the other, `accumulation` batches each. Each begins a step with the
/// same buffers and with gradients of 0. Gradients are added up along one binary tree over the virtual ranks: a process
/// adds up the subtrees that are whole among its own (RankBlock), mostly one. At the step's end, in finish_gradients(),
/// each process gets its part of every such sum (all-to-all), adds up the rest of the tree, and gives the average to
/// all (all-gather): the traffic of one all-reduce where each has one sum. Buffers are then virtual rank 0's
/// everywhere, as DistributedDataParallel's broadcast_buffers makes them before its next step. The result differs from
/// DataParallel's by the order of additions alone.
///
/// The price: no gradient travels while backward still runs, and up to log2 of this process's virtual ranks gradients
/// are held besides the one that is computed. The same bits also take the same number of threads in each process.
class ExactReplica final : public Replica {
 public:
  /// Checks that all ranks have parameters of the same shapes, then gives every rank rank 0's values
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
  /// Gradients are averaged in finish_gradients(), whatever was said here.
  void set_gradient_sync(bool /*sync*/) override {}
  void zero_grad() override;
  void finish_gradients() override;
  at::Tensor clip_grad_norm(double max_norm) override;
  /// Nothing settles later than in create().
  [[nodiscard]] Result<void> warm_up(const Loss& /*loss*/) override { return {}; }
  /// They are the same after each step.
  [[nodiscard]] Result<void> sync_buffers() override { return {}; }

 private:
  ExactReplica(std::shared_ptr<torch::nn::Module> module, process_group::Group group, const ExactOptions& options);

  /// The gradients of a block's virtual ranks, added up.
  struct BlockSum {
    RankBlock block;
    at::Tensor sum;
  };

  void allocate();
  void begin_gradients();
  void keep_gradients();
  [[nodiscard]] at::Tensor sent_sums() const;
  [[nodiscard]] std::vector<BlockSum> exchange_sums();
  [[nodiscard]] at::Tensor average_of(const std::vector<BlockSum>& sums) const;
  static void add(std::vector<BlockSum>& sums, BlockSum more);

  std::shared_ptr<torch::nn::Module> module_;
  process_group::Group group_;
  std::int64_t world_size_;
  std::int64_t accumulation_;
  VirtualRanks ranks_;
  std::vector<at::Tensor> parameters_;  ///< those that take gradients
  std::vector<at::Tensor> buffers_;
  std::int64_t part_ = 0;  ///< elements of the gradients that one process adds up
  at::Tensor gradients_;   ///< [world_size * part] of the virtual rank being computed; the parameters' are views of it
  std::vector<at::Tensor> places_;            ///< for gradients_ and sums_, each as large
  std::vector<BlockSum> sums_;                ///< as gradients_, of the virtual ranks of this step that were computed
  std::vector<at::Tensor> buffers_at_first_;  ///< copies, as the step began
  std::vector<at::Tensor> buffers_of_first_;  ///< copies, virtual rank 0's after its batches
  std::int64_t batches_ = 0;                  ///< of this step
};

}  // namespace rollcall::parallel
