#pragma once

#include <c10/util/intrusive_ptr.h>
#include <functional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "trainer/distributed/fsdp/options.h"
#include "trainer/distributed/process_group/mesh.h"
#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {

/// Pending collectives. Call wait() once; it throws what c10d throws. For collectives of a device the current stream
/// waits, not the host: their memory may be freed on a stream that is ordered after it.
class Pending {
 public:
  Pending() = default;
  Pending(const std::function<void()>& around, Counters& counters) : around_(&around), counters_(&counters) {}

  /// Adds a collective. `tensors` are those that it reads and writes, if `work` does not hold them itself.
  void add(c10::intrusive_ptr<c10d::Work> work, std::vector<at::Tensor> tensors) {
    works_.push_back(std::move(work));
    tensors_.push_back(std::move(tensors));
  }
  void wait();

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;  ///< empty for a group of one
  std::vector<std::vector<at::Tensor>> tensors_;       ///< tensors of each of works_
  const std::function<void()>* around_ = nullptr;
  Counters* counters_ = nullptr;
};

/// Runs the collectives of sharded training over a mesh, each with the least traffic possible, and counts their cost.
/// Tensors are one-dimensional and on a device for which the groups have a backend. For the main thread and autograd's
/// thread, not both at once. Throws what c10d throws.
class Communicator {
 public:
  /// `options` outlives the communicator.
  Communicator(process_group::Mesh mesh, const Options& options) : mesh_(std::move(mesh)), options_(options) {}

  [[nodiscard]] std::int64_t rank() const { return process_group::rank_of(mesh_.shard); }
  [[nodiscard]] std::int64_t size() const { return process_group::world_size_of(mesh_.shard); }
  [[nodiscard]] std::int64_t replicas() const { return process_group::world_size_of(mesh_.replicate); }
  [[nodiscard]] const process_group::Mesh& mesh() const { return mesh_; }

  /// Fills each of `gathered` with the corresponding one of `mine` of all ranks of `group` (of this mesh, or null),
  /// back to back.
  [[nodiscard]] Pending all_gather(const process_group::Group& group, std::vector<at::Tensor> gathered,
                                   std::vector<at::Tensor> mine);

  /// Adds up over the ranks, in their type, part r of each of `parts` (one equal part for each rank of the shard group,
  /// back to back), for rank r; the corresponding one of `sums` gets this rank's. The backend adds, in its own order.
  [[nodiscard]] Pending reduce_scatter(const std::vector<at::Tensor>& sums, const std::vector<at::Tensor>& parts);

  /// Sends part r of each of `parts` to rank r; the corresponding one of `received` gets all ranks' parts for this
  /// rank. With add_up() this makes a reduce-scatter in any type, with the least traffic possible: half as much as
  /// Gloo's own reduce-scatter, which is an all-reduce.
  [[nodiscard]] Pending all_to_all(const std::vector<at::Tensor>& received, const std::vector<at::Tensor>& parts);

  /// Writes the sum of `received`'s rows, in the type of `sum`, to `sum`. Adds pairwise, so in the same order on every
  /// machine; exact for 2^n equal rows. Overwrites `received` if it has the same type.
  static void add_up(const at::Tensor& sum, const at::Tensor& received);

  /// Replaces `sum` by its sum over the replicas, and waits for it.
  void add_replicas(at::Tensor& sum);

  Counters counters;

 private:
  template <typename Issue>
  [[nodiscard]] Pending reduce(const std::vector<at::Tensor>& received, const std::vector<at::Tensor>& parts,
                               const Issue& issue);
  void around_collective() const;

  process_group::Mesh mesh_;
  const Options& options_;
};

}  // namespace rollcall::parallel::fsdp
