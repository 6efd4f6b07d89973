#pragma once

#include <torch/torch.h>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/distributed/fsdp/bundles.h"
#include "trainer/distributed/fsdp/communicator.h"
#include "trainer/distributed/fsdp/device_memory.h"
#include "trainer/distributed/fsdp/host_link.h"
#include "trainer/distributed/fsdp/options.h"
#include "trainer/distributed/fsdp/row_shards.h"
#include "trainer/distributed/fsdp/unsharded_memory.h"

namespace rollcall::parallel::fsdp {

/// What the groups of a model have in common. All outlives them.
struct GroupContext {
  Communicator& communicator;
  const UnshardedMemory& memory;  ///< of the device that computes
  HostLink* host_link;            ///< null: shards live on that device
  const Options& options;
};

/// Parameters that are gathered, freed and reduced together: those of one block. Each is cut along dimension 0; this
/// rank's parts lie back to back in one flat tensor, which all-gathers read (or what that is copied from, where shards
/// live in main memory) and which the optimizer updates through views. What travels in one message: see Bundle. Knows
/// nothing of the order in which blocks run: that is Schedule's.
///
/// The collectives throw what c10d throws. Not thread-safe.
class ParameterGroup {
 public:
  /// Cuts the members' values (the same on every rank of the shard group) and frees the whole tensors. All members have
  /// one type, are on the context's device and rows_are_outermost(); throws c10::Error otherwise.
  ParameterGroup(const GroupContext& context, std::string name, std::vector<Member> members);
  ParameterGroup(const ParameterGroup&) = delete;
  ParameterGroup& operator=(const ParameterGroup&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t size() const { return slots_.size(); }
  [[nodiscard]] const std::string& name_of(std::size_t i) const { return slots_[i].name; }
  /// The module's own tensor; its memory is there between make_whole() and make_shards().
  [[nodiscard]] const at::Tensor& whole(std::size_t i) const { return slots_[i].whole; }
  /// This rank's part, a leaf for the optimizer.
  [[nodiscard]] const at::Tensor& shard(std::size_t i) const { return shards_[i]; }
  [[nodiscard]] const RowShards& rows(std::size_t i) const { return slots_[i].rows; }
  [[nodiscard]] std::size_t trainable() const { return trainable_; }
  /// Bytes of the whole parameters, padding of the shards included.
  [[nodiscard]] std::int64_t whole_bytes() const;

  /// Bytes that an all-gather under way takes: what arrives through a buffer is there twice.
  [[nodiscard]] std::int64_t gathering_bytes() const { return whole_bytes() + buffer_bytes(); }

  /// Starts the all-gather, unless the parameters are whole or on the way.
  void start_gather();
  /// Waits until the parameters can be read. `keep_small`: the next make_shards() keeps a part of them for a second
  /// all-gather over Mesh::reshard.
  void make_whole(bool keep_small = false);
  /// Frees the whole parameters.
  void make_shards();
  /// Before the optimizer changes the shards: frees everything that was gathered from them.
  void forget();

  struct Reduction {
    std::vector<at::Tensor> parts;  ///< by bundle, on the way
    std::vector<at::Tensor> received;
    Pending pending;
  };
  /// Takes the whole parameters' gradients (a missing one is 0) and starts their exchange.
  [[nodiscard]] Reduction start_reduction();
  /// Waits for it and adds the mean over all ranks to the shards' gradients; with a host link they are there after its
  /// wait().
  void finish(Reduction& reduction);
  /// Puts the whole parameters' gradients aside until start_reduction(), instead of reducing them now.
  void accumulate();
  void zero_grad();

 private:
  enum class State { Shards, SmallShards, Gathering, Whole };

  struct Slot {
    std::string name;
    at::Tensor whole;
    RowShards rows;
    std::int64_t offset = 0;         ///< in the flat shard, in elements
    std::int64_t gather_offset = 0;  ///< in this rank's part of an all-gather, in bytes
    std::int64_t whole_offset = 0;   ///< in the memory of the group's whole parameters, in bytes
    at::Tensor accumulated;          ///< gradients put aside, in the reduction's type
  };

  /// Where something is in a rank's part, and how much: bytes of what is gathered, elements of what is reduced.
  struct Span {
    std::int64_t begin = 0;
    std::int64_t size = 0;
  };

  void add(const Member& member);
  void cut(const Slot& slot);
  [[nodiscard]] at::Tensor part_of(const at::Tensor& flat, const Slot& slot) const;
  void add_pieces(const Bundle& bundle);
  [[nodiscard]] std::int64_t padded_bytes(const Slot& slot) const;
  [[nodiscard]] Span gathered_span(const Bundle& bundle) const;
  [[nodiscard]] Span reduced_span(const Bundle& bundle) const;
  [[nodiscard]] std::vector<Bundle> trainable_bundles() const;
  void issue_gather();
  void await_gather();
  [[nodiscard]] at::Tensor gather_input() const;
  [[nodiscard]] std::int64_t buffer_bytes() const;
  [[nodiscard]] at::Tensor exchange_memory(std::int64_t numel) const;
  [[nodiscard]] at::Tensor parts_of(const Bundle& bundle);
  [[nodiscard]] at::ScalarType reduce_type() const { return options_.reduce_type.value_or(flat_.scalar_type()); }
  [[nodiscard]] at::Tensor take_gradient(Slot& slot) const;
  void copy_in(const Slot& slot, const at::Tensor& gradient, const at::Tensor& parts, const Span& span) const;
  [[nodiscard]] at::Tensor mean_of(const Reduction& reduction, const at::Tensor& memory);
  [[nodiscard]] bool has_gradients() const;
  [[nodiscard]] at::Tensor gradient_memory(const Slot& slot) const;
  void add_gradients(const at::Tensor& mean);
  void count_whole(std::int64_t bytes);

  Communicator& communicator_;
  const UnshardedMemory& memory_;
  HostLink* host_link_;
  const Options& options_;
  std::string name_;
  std::vector<Slot> slots_;  ///< those that take gradients first
  std::vector<at::Tensor> shards_;
  std::size_t trainable_ = 0;
  at::Tensor flat_;
  at::Tensor flat_gradient_;  ///< as long as the group, so that malloc finds no use for its place in between
  std::vector<Bundle> bundles_;
  std::int64_t room_bytes_ = 0;    ///< for the whole parameters, side by side and aligned
  std::int64_t gather_bytes_ = 0;  ///< of one rank
  std::int64_t reduce_numel_ = 0;  ///< of one rank
  std::vector<Piece> pieces_;      ///< of the buffer in the memory of the whole parameters
  bool one_type_ = true;           ///< parameters are gathered in the shards' type
  State state_ = State::Whole;
  at::Tensor room_;    ///< for the whole parameters, while they are gathered
  at::Tensor buffer_;  ///< what those get that share it, of all ranks
  at::Tensor small_;
  Pending pending_;
};

}  // namespace rollcall::parallel::fsdp
