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

/// The parameters of one block, which are gathered, freed and reduced together. Each is cut along dimension 0. This
/// rank's parts are back to back in one flat tensor. All-gathers read it, or its copy on the device if shards are in
/// main memory, and the optimizer updates it through views. Coalesced describes the messages. The order in which blocks
/// run is the concern of Schedule.
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
  /// Returns the module's own tensor, which has memory between unshard() and reshard().
  [[nodiscard]] const at::Tensor& unsharded(std::size_t i) const { return layout_.slots[i].unsharded; }
  /// Returns this rank's part, a leaf for the optimizer.
  [[nodiscard]] const at::Tensor& shard(std::size_t i) const { return shards_[i]; }
  [[nodiscard]] const RowShards& rows(std::size_t i) const { return layout_.slots[i].rows; }
  [[nodiscard]] std::size_t trainable() const { return layout_.trainable; }
  /// Returns the bytes of the unsharded parameters, with the padding of the shards.
  [[nodiscard]] std::int64_t unsharded_bytes() const { return layout_.gather_bytes * communicator_.size(); }
  [[nodiscard]] GroupGradients& gradients() { return *gradients_; }

  /// Returns the bytes that a pending all-gather takes: parameters that share a buffer are counted twice.
  [[nodiscard]] std::int64_t gathering_bytes() const { return unsharded_bytes() + buffer_bytes(); }

  /// Starts the all-gather, unless it is pending or the parameters are unsharded.
  void start_gather();
  /// Waits until the parameters can be read. With `keep_small` the next reshard() keeps a part of them for a second
  /// all-gather over Mesh::reshard.
  void unshard(bool keep_small = false);
  /// Frees the unsharded parameters.
  void reshard();
  /// Frees everything that was gathered from the shards; call it before the optimizer changes them.
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
  std::vector<Piece> pieces_;  ///< copies from the buffer to the memory of the unsharded parameters
  bool one_type_ = true;       ///< whether parameters are gathered in the shards' type
  State state_ = State::Unsharded;
  at::Tensor room_;    ///< memory of the unsharded parameters, from the start of the all-gather on
  at::Tensor buffer_;  ///< receives all ranks' parts of the parameters that share a message
  at::Tensor small_;   ///< the part that a reshard() kept
  Pending pending_;
  HostLink::Uploaded uploaded_;              ///< the upload of what pending_ gathers; unset without a host link
  std::optional<GroupGradients> gradients_;  ///< set by the constructor
};

}  // namespace rollcall::parallel::fsdp
