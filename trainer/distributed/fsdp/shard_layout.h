#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/distributed/fsdp/options.h"

namespace rollcall::parallel::fsdp {

/// Divides a tensor along dimension 0: every rank gets `chunk` rows, the last ranks fewer or none. A tensor without
/// dimensions is one row. Pure arithmetic; counts are elements, not bytes.
struct RowShards {
  std::int64_t rows = 1;
  std::int64_t row_numel = 1;
  std::int64_t chunk = 1;  ///< rows of a rank: ceil(rows / ranks)

  /// `whole` must be dense with dimension 0 outermost in memory, as contiguous and channels-last tensors are.
  RowShards(const at::Tensor& whole, std::int64_t ranks);

  [[nodiscard]] std::int64_t first_row(std::int64_t rank) const;
  [[nodiscard]] std::int64_t rows_of(std::int64_t rank) const;
  [[nodiscard]] std::int64_t offset_of(std::int64_t rank) const { return first_row(rank) * row_numel; }
  [[nodiscard]] std::int64_t numel_of(std::int64_t rank) const { return rows_of(rank) * row_numel; }
  /// Returns the number of elements that a shard takes in a collective, the same on every rank.
  [[nodiscard]] std::int64_t padded_numel() const { return chunk * row_numel; }
};

/// Returns whether RowShards can divide `tensor`: it is dense with dimension 0 outermost.
[[nodiscard]] bool rows_are_outermost(const at::Tensor& tensor);

/// Returns whether both have the same memory layout. Strides of dimensions of size 1 are ignored: gradients of 1x1
/// convolutions have others than their parameters.
[[nodiscard]] bool same_layout(const at::Tensor& a, const at::Tensor& b);

/// Returns `rank`'s part of `whole` as a view of `flat` beginning at element `offset`, with `whole`'s strides and its
/// shape except for dimension 0.
[[nodiscard]] at::Tensor shard_view(const at::Tensor& flat, const at::Tensor& whole, const RowShards& shards,
                                    std::int64_t rank, std::int64_t offset);

/// A parameter that is to be added to a group.
struct Member {
  std::string name;
  at::Tensor tensor;        ///< the module's own
  bool keeps_type = false;  ///< whether it computes in its own type regardless of Options::parameter_type
};

/// Parameters of a group that share one message of each collective. A single parameter is sent from and received into
/// its own memory. Several share a buffer, which orders their parts by rank, so that the parts of one parameter are not
/// adjacent, and they are copied out of it.
struct Coalesced {
  std::size_t first = 0;  ///< index of the first of them among the group's parameters
  std::size_t count = 0;
  bool in_place = false;  ///< whether it is one parameter whose memory layout is that of the message
};

/// Returns whether a member gets a message of its own. Its rows must divide evenly, so that its memory is the ranks'
/// parts back to back; it must be long enough for the cost of a message to be small; and no smaller group of ranks may
/// need the parts of a whole block (AfterForward::SmallShard).
[[nodiscard]] bool travels_alone(const Member& member, std::int64_t ranks, const Options& options);

/// Sorts the members: those that take gradients first, and those that share a buffer side by side.
void sort_for_coalescing(std::vector<Member>& members, std::int64_t ranks, const Options& options);

/// Returns the messages of sorted members.
[[nodiscard]] std::vector<Coalesced> coalesce(const std::vector<Member>& members, std::int64_t ranks,
                                              const Options& options);

/// The offsets of each parameter of a group. Slots and messages are in the order of sort_for_coalescing().
struct GroupLayout {
  struct Slot {
    std::string name;
    at::Tensor unsharded;  ///< the module's own
    RowShards rows;
    std::int64_t offset = 0;            ///< in the flat shard, in elements
    std::int64_t gather_offset = 0;     ///< in this rank's part of an all-gather, in bytes
    std::int64_t unsharded_offset = 0;  ///< in the memory of the group's unsharded parameters, in bytes

    /// Returns the bytes that the parameter takes in this rank's part of an all-gather.
    [[nodiscard]] std::int64_t padded_bytes() const {
      return rows.padded_numel() * static_cast<std::int64_t>(unsharded.element_size());
    }
  };

  /// A range of a rank's part, in bytes for all-gathers and in elements for reductions.
  struct Span {
    std::int64_t begin = 0;
    std::int64_t size = 0;
  };

  std::vector<Slot> slots;  ///< parameters that take gradients first
  std::vector<Coalesced> messages;
  std::size_t trainable = 0;         ///< number of slots that take gradients
  std::int64_t gather_bytes = 0;     ///< of one rank's part of an all-gather
  std::int64_t reduce_numel = 0;     ///< elements of one rank's part of a reduction
  std::int64_t unsharded_bytes = 0;  ///< of the unsharded parameters, side by side and aligned

  [[nodiscard]] Span gathered_span(const Coalesced& message) const;
  [[nodiscard]] Span reduced_span(const Coalesced& message) const;
  /// Returns the messages with a parameter that takes gradients.
  [[nodiscard]] std::vector<Coalesced> trainable_messages() const;
};

}  // namespace rollcall::parallel::fsdp
