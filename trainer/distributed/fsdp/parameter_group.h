#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/distributed/fsdp/communicator.h"
#include "trainer/distributed/fsdp/group_gradients.h"
#include "trainer/distributed/fsdp/host_link.h"
#include "trainer/distributed/fsdp/options.h"
#include "trainer/distributed/fsdp/shard_layout.h"
#include "trainer/distributed/fsdp/unsharded_memory.h"
#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {

/// Parameters that are gathered, freed and reduced together: those of one block. Each is cut along dimension 0; this
/// rank's parts lie back to back in one flat tensor, which all-gathers read (or what that is copied from, where shards
/// live in main memory) and which the optimizer updates through views. What travels in one message: see Coalesced.
/// Knows nothing of the order in which blocks run: that is Schedule's.
///
/// The collectives throw what c10d throws. Not thread-safe.
class ParameterGroup {
 public:
  /// Cuts the members' values (the same on every rank of the shard group) and frees the unsharded tensors. All members
  /// have one type, are on the context's device and rows_are_outermost(); throws c10::Error otherwise.
  ParameterGroup(const GroupContext& context, std::string name, std::vector<Member> members);
  ParameterGroup(const ParameterGroup&) = delete;
  ParameterGroup& operator=(const ParameterGroup&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t size() const { return layout_.slots.size(); }
  [[nodiscard]] const std::string& name_of(std::size_t i) const { return layout_.slots[i].name; }
  /// The module's own tensor; its memory is there between unshard() and reshard().
  [[nodiscard]] const at::Tensor& unsharded(std::size_t i) const { return layout_.slots[i].unsharded; }
  /// This rank's part, a leaf for the optimizer.
  [[nodiscard]] const at::Tensor& shard(std::size_t i) const { return shards_[i]; }
  [[nodiscard]] const RowShards& rows(std::size_t i) const { return layout_.slots[i].rows; }
  [[nodiscard]] std::size_t trainable() const { return layout_.trainable; }
  /// Bytes of the unsharded parameters, padding of the shards included.
  [[nodiscard]] std::int64_t unsharded_bytes() const { return layout_.gather_bytes * communicator_.size(); }
  [[nodiscard]] GroupGradients& gradients() { return *gradients_; }

  /// Bytes that an all-gather under way takes: what arrives through a buffer is there twice.
  [[nodiscard]] std::int64_t gathering_bytes() const { return unsharded_bytes() + buffer_bytes(); }

  /// Starts the all-gather, unless the parameters are unsharded or on the way.
  void start_gather();
  /// Waits until the parameters can be read. `keep_small`: the next reshard() keeps a part of them for a second
  /// all-gather over Mesh::reshard.
  void unshard(bool keep_small = false);
  /// Frees the unsharded parameters.
  void reshard();
  /// Before the optimizer changes the shards: frees everything that was gathered from them.
  void forget();

 private:
  enum class State { Sharded, SmallShards, Gathering, Unsharded };
  using Slot = GroupLayout::Slot;

  void add(const Member& member);
  void copy_own_part(const Slot& slot);
  void add_pieces(const Coalesced& message);
  void issue_gather();
  void await_gather();
  [[nodiscard]] at::Tensor gather_input() const;
  [[nodiscard]] std::int64_t buffer_bytes() const;
  void count_unsharded(std::int64_t bytes);

  Communicator& communicator_;
  const UnshardedMemory& memory_;
  HostLink* host_link_;
  const Options& options_;
  std::string name_;
  GroupLayout layout_;
  std::vector<at::Tensor> shards_;  ///< by slot, views of flat_
  at::Tensor flat_;
  std::vector<Piece> pieces_;  ///< of the buffer in the memory of the unsharded parameters
  bool one_type_ = true;       ///< parameters are gathered in the shards' type
  State state_ = State::Unsharded;
  at::Tensor room_;    ///< for the unsharded parameters, while they are gathered
  at::Tensor buffer_;  ///< what those get that share it, of all ranks
  at::Tensor small_;   ///< the part that is kept over a reshard()
  Pending pending_;
  HostLink::Uploaded uploaded_;              ///< with a host link: what pending_ gathers
  std::optional<GroupGradients> gradients_;  ///< from the end of the constructor on
};

}  // namespace rollcall::parallel::fsdp
