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

/// What the groups of a model have in common. All outlives them.
struct GroupContext {
  Communicator& communicator;
  const UnshardedMemory& memory;  ///< of the device that computes
  HostLink* host_link;            ///< null: shards live on that device
  /// Beside the one that computes: reductions, from copies of gradients to the shards' mean. Nothing on CPUs.
  const std::optional<c10::Stream>& reductions;
  const Options& options;
};

/// The gradients of a group of parameters, on their way from the unsharded ones to the shards. A backward pass leaves
/// them on the unsharded parameters, from which start() or accumulate() takes them; finish() gives the shards theirs.
///
/// On a device start() gives all of it to the stream of reductions, and the host and the computing stream go on: that
/// may use the memory of gradients again after finish(), and read the shards' once it waits for the whole stream.
///
/// The collectives throw what c10d throws. Not thread-safe.
class GroupGradients {
 public:
  /// `layout` and `shards`, one for each of its slots and of the type and device of `home`, outlive it.
  GroupGradients(const GroupContext& context, const GroupLayout& layout, std::vector<at::Tensor>& shards,
                 const at::TensorOptions& home);
  GroupGradients(const GroupGradients&) = delete;
  GroupGradients& operator=(const GroupGradients&) = delete;

  struct Reduction {
    std::vector<at::Tensor> parts;     ///< by message, on the way
    std::vector<at::Tensor> received;  ///< by message
    at::Tensor sum;                    ///< of all messages, where the backend adds
    Pending pending;
    std::vector<at::Tensor> gradients;  ///< on a device, which read them until `sent`
    std::optional<c10::Event> sent;
  };
  /// Takes the unsharded parameters' gradients (a missing one is 0) and starts their reduction.
  [[nodiscard]] Reduction start();
  /// Waits for it and adds the mean over all ranks to the shards' gradients; with a host link they are there after its
  /// wait().
  void finish(Reduction& reduction);
  /// Puts the unsharded parameters' gradients aside until start(), instead of reducing them now.
  void accumulate();
  void zero();

 private:
  using Slot = GroupLayout::Slot;
  using Span = GroupLayout::Span;

  [[nodiscard]] at::ScalarType reduce_type() const;
  [[nodiscard]] bool backend_adds() const;
  [[nodiscard]] at::Tensor exchange_memory(std::int64_t numel) const;
  /// The gradient that autograd made, with what was put aside.
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
  at::Tensor flat_;  ///< of the shards; as long as the group, so that malloc finds no use for its place in between
  std::vector<at::Tensor> accumulated_;  ///< by slot, put aside, in the shards' type
};

}  // namespace rollcall::parallel::fsdp
