#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/distributed/fsdp/options.h"

namespace rollcall::parallel::fsdp {

/// How one tensor is cut along dimension 0: every rank gets `chunk` rows, the last ranks fewer or none. A tensor
/// without dimensions is one row. Pure arithmetic; counts are elements, not bytes.
struct RowShards {
  std::int64_t rows = 1;
  std::int64_t row_numel = 1;
  std::int64_t chunk = 1;  ///< rows a rank: ceil(rows / ranks)

  /// `whole` must be dense with dimension 0 outermost in memory, as contiguous and channels-last tensors are.
  RowShards(const at::Tensor& whole, std::int64_t ranks);

  [[nodiscard]] std::int64_t first_row(std::int64_t rank) const;
  [[nodiscard]] std::int64_t rows_of(std::int64_t rank) const;
  [[nodiscard]] std::int64_t offset_of(std::int64_t rank) const { return first_row(rank) * row_numel; }
  [[nodiscard]] std::int64_t numel_of(std::int64_t rank) const { return rows_of(rank) * row_numel; }
  /// The same on every rank, so that all ranks' shards take equally much room in a collective.
  [[nodiscard]] std::int64_t padded_numel() const { return chunk * row_numel; }
};

/// Whether RowShards can cut it: dense, dimension 0 outermost.
[[nodiscard]] bool rows_are_outermost(const at::Tensor& tensor);

/// Whether both have their elements in the same places. Strides of dimensions of size 1 mean nothing: gradients of 1x1
/// convolutions have others than their parameters.
[[nodiscard]] bool same_layout(const at::Tensor& a, const at::Tensor& b);

/// `rank`'s part of `whole` as a view of `flat` from element `offset` on: `whole`'s shape but for dimension 0, and its
/// strides.
[[nodiscard]] at::Tensor shard_view(const at::Tensor& flat, const at::Tensor& whole, const RowShards& shards,
                                    std::int64_t rank, std::int64_t offset);

/// A parameter on its way into a group.
struct Member {
  std::string name;
  at::Tensor tensor;        ///< the module's own
  bool keeps_type = false;  ///< computes in its own type whatever Options::parameter_type says
};

/// Parameters of a group that travel in one message of each collective: one by itself, or several side by side. What
/// travels by itself is sent from and received into the place where it is used. Others share a buffer, out of which
/// they are copied: the parts of all ranks lie in it by rank, and those of a parameter not beside each other.
struct Coalesced {
  std::size_t first = 0;  ///< of the group's parameters, in order
  std::size_t count = 0;
  bool in_place = false;  ///< one parameter, whose parts lie in it as they do in a message
};

/// Whether a member travels by itself: its rows divide evenly, so that it lies in memory as the ranks' parts of it do
/// back to back; it is long enough for a message of its own to cost next to nothing; and no smaller group of ranks
/// needs the parts of a whole block (AfterForward::SmallShard).
[[nodiscard]] bool travels_alone(const Member& member, std::int64_t ranks, const Options& options);

/// Puts the members in the group's order: first those that take gradients, and those that share a buffer together.
void sort_for_coalescing(std::vector<Member>& members, std::int64_t ranks, const Options& options);

/// The messages of sorted members.
[[nodiscard]] std::vector<Coalesced> coalesce(const std::vector<Member>& members, std::int64_t ranks,
                                              const Options& options);

/// Where each parameter of a group is. Slots and messages are in the order of sort_for_coalescing().
struct GroupLayout {
  struct Slot {
    std::string name;
    at::Tensor unsharded;  ///< the module's own
    RowShards rows;
    std::int64_t offset = 0;            ///< in the flat shard, in elements
    std::int64_t gather_offset = 0;     ///< in this rank's part of an all-gather, in bytes
    std::int64_t unsharded_offset = 0;  ///< in the memory of the group's unsharded parameters, in bytes

    /// Of this rank's part of an all-gather.
    [[nodiscard]] std::int64_t padded_bytes() const {
      return rows.padded_numel() * static_cast<std::int64_t>(unsharded.element_size());
    }
  };

  /// Where something is in a rank's part, and how much: bytes of what is gathered, elements of what is reduced.
  struct Span {
    std::int64_t begin = 0;
    std::int64_t size = 0;
  };

  std::vector<Slot> slots;  ///< those that take gradients first
  std::vector<Coalesced> messages;
  std::size_t trainable = 0;         ///< slots
  std::int64_t gather_bytes = 0;     ///< of one rank
  std::int64_t reduce_numel = 0;     ///< of one rank
  std::int64_t unsharded_bytes = 0;  ///< for the unsharded parameters, side by side and aligned

  [[nodiscard]] Span gathered_span(const Coalesced& message) const;
  [[nodiscard]] Span reduced_span(const Coalesced& message) const;
  /// Those of which something takes gradients.
  [[nodiscard]] std::vector<Coalesced> trainable_messages() const;
};

}  // namespace rollcall::parallel::fsdp
