#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/distributed/fsdp/communicator.h"
#include "trainer/distributed/fsdp/host_link.h"
#include "trainer/distributed/fsdp/options.h"
#include "trainer/distributed/fsdp/shard_layout.h"
#include "trainer/distributed/fsdp/unsharded_memory.h"
#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {

/// Objects shared by the parameter groups of a model, which they outlive.
struct GroupContext {
  Communicator& communicator;
  const UnshardedMemory& memory;  ///< memory of the device that computes
  HostLink* host_link;            ///< null if shards are on that device
  /// The stream of reductions, from the copy of gradients to the shards' mean. Unset on CPUs.
  const std::optional<c10::Stream>& reductions;
  const Options& options;
};

/// Reduces the gradients of a group of parameters into the shards. A backward pass leaves them on the unsharded
/// parameters, from which start() or accumulate() takes them; finish() adds the mean to the shards' gradients.
///
/// On a device start() enqueues all of it on the stream of reductions, while the host and the compute stream continue.
/// The compute stream may reuse the memory of gradients after finish(), and read the shards' gradients once it has
/// waited for the whole stream of reductions.
///
/// The collectives throw what c10d throws. Not thread-safe.
class GroupGradients {
 public:
  /// `layout` and `shards` outlive this object. There is one shard for each slot of `layout`, with the type and device
  /// of `home`.
  GroupGradients(const GroupContext& context, const GroupLayout& layout, std::vector<at::Tensor>& shards,
                 const at::TensorOptions& home);
  GroupGradients(const GroupGradients&) = delete;
  GroupGradients& operator=(const GroupGradients&) = delete;

  struct Reduction {
    std::vector<at::Tensor> parts;     ///< what each message sends
    std::vector<at::Tensor> received;  ///< what each message receives
    at::Tensor sum;                    ///< result of all messages, set if the backend adds
    Pending pending;
    std::vector<at::Tensor> gradients;  ///< on a device, which reads them until `sent`
    std::optional<c10::Event> sent;     ///< unset on CPUs
  };
  /// Takes the unsharded parameters' gradients (a missing one is 0) and starts their reduction.
  [[nodiscard]] Reduction start();
  /// Waits for `reduction` and adds the mean over all ranks to the shards' gradients. With a host link they are
  /// complete after its wait().
  void finish(Reduction& reduction);
  /// Adds the unsharded parameters' gradients to an accumulator, which the next start() reduces.
  void accumulate();
  void zero();

 private:
  using Slot = GroupLayout::Slot;
  using Span = GroupLayout::Span;

  [[nodiscard]] at::ScalarType reduce_type() const;
  [[nodiscard]] bool backend_adds() const;
  [[nodiscard]] at::Tensor all_to_all_memory(std::int64_t numel) const;
  /// Takes the gradient that autograd made, with the accumulated one.
  [[nodiscard]] at::Tensor take(std::size_t slot);
  void send(Reduction& reduction, std::vector<at::Tensor> gradients);
  [[nodiscard]] Reduction reduce_beside(std::vector<at::Tensor> gradients);
  void copy_in(const Slot& slot, const at::Tensor& gradient, const at::Tensor& parts, const Span& span) const;
  [[nodiscard]] at::Tensor parts_of(const Coalesced& message, std::vector<at::Tensor>& gradients) const;
  [[nodiscard]] at::Tensor mean_memory() const;
  [[nodiscard]] at::Tensor mean_of(const Reduction& reduction);
  void give_to_shards(const Reduction& reduction);
  [[nodiscard]] bool any() const;
  [[nodiscard]] at::Tensor part_of(const at::Tensor& flat, const Slot& slot) const;
  [[nodiscard]] at::Tensor shard_memory(const Slot& slot) const;
  void add(const at::Tensor& mean);

  Communicator& communicator_;
  const UnshardedMemory& memory_;
  HostLink* host_link_;
  const std::optional<c10::Stream>& stream_;
  const Options& options_;
  const GroupLayout& layout_;
  std::vector<at::Tensor>& shards_;
  at::Tensor flat_;  ///< the shards' gradients; kept as long as the group, so that malloc does not reuse the memory
  std::vector<at::Tensor> accumulated_;  ///< by slot, in the shards' type
};

}  // namespace rollcall::parallel::fsdp
