#pragma once

#include <c10/util/intrusive_ptr.h>
#include <functional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "trainer/distributed/fsdp/options.h"
#include "trainer/distributed/process_group/mesh.h"
#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {

/// Collectives under way. wait() once; throws what c10d throws. Of a device's it is the current stream that waits:
/// their memory may be let go of where the stream that it was taken on comes behind.
class Pending {
 public:
  Pending() = default;
  Pending(const std::function<void()>& around, Counters& counters) : around_(&around), counters_(&counters) {}

  /// `tensors`: what it reads and writes, if it does not hold it itself.
  void add(c10::intrusive_ptr<c10d::Work> work, std::vector<at::Tensor> tensors) {
    works_.push_back(std::move(work));
    tensors_.push_back(std::move(tensors));
  }
  void wait();

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;  ///< none where there is nobody to talk to
  std::vector<std::vector<at::Tensor>> tensors_;       ///< of each
  const std::function<void()>* around_ = nullptr;
  Counters* counters_ = nullptr;
};

/// The three collectives of sharded training over a mesh, each with the least traffic possible, and what they cost.
/// Tensors are one-dimensional and on a device that the groups have a backend for. Main thread and autograd's thread,
/// not both at once. Throws what c10d throws.
class Communicator {
 public:
  /// `options` outlives it.
  Communicator(process_group::Mesh mesh, const Options& options) : mesh_(std::move(mesh)), options_(options) {}

  [[nodiscard]] std::int64_t rank() const { return process_group::rank_of(mesh_.shard); }
  [[nodiscard]] std::int64_t size() const { return process_group::world_size_of(mesh_.shard); }
  [[nodiscard]] std::int64_t replicas() const { return process_group::world_size_of(mesh_.replicate); }
  [[nodiscard]] const process_group::Mesh& mesh() const { return mesh_; }

  /// Each of `gathered` becomes the one of `mine` of all ranks of `group` (of this mesh, or null), back to back.
  [[nodiscard]] Pending all_gather(const process_group::Group& group, std::vector<at::Tensor> gathered,
                                   std::vector<at::Tensor> mine);

  /// Of each of `parts` (as many equal ones as the shard group has ranks, back to back) everybody's part r is added up
  /// for rank r, in their type; the one of `sums` gets those of this rank. The backend adds, in an order of its own.
  [[nodiscard]] Pending reduce_scatter(const std::vector<at::Tensor>& sums, const std::vector<at::Tensor>& parts);

  /// Of each of `parts` sends part r to rank r; the one of `received` gets everybody's part for this rank. With
  /// add_up() it is a reduce-scatter in any type: an all-to-all moves as little as one can, and where Gloo has none but
  /// an all-reduce in disguise, half as much.
  [[nodiscard]] Pending exchange(const std::vector<at::Tensor>& received, const std::vector<at::Tensor>& parts);

  /// `sum` becomes that of `received`'s rows, in its own type, by pairs and so in the same order on every machine;
  /// exact for rows that are equal where their number is a power of two. `received` is overwritten if that is its type.
  static void add_up(const at::Tensor& sum, const at::Tensor& received);

  /// `sum` becomes the sum over the replicas. Waits.
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
