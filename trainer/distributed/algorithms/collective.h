#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/distributed/algorithms/algorithms.h"
#include "trainer/distributed/algorithms/elements.h"
#include "trainer/distributed/algorithms/execution.h"

namespace rollcall::process_group {

enum class CollectiveKind : std::uint8_t { AllReduce, ReduceScatter, AllGather, Broadcast, Gather, AllToAll, Barrier };

/// A collective as one rank calls it; algorithms.h describes input and output of each kind. Pure data; does not own
/// memory of tensors.
struct Collective {
  CollectiveKind kind = CollectiveKind::Barrier;
  std::uint32_t root = 0;                              ///< for Broadcast and Gather
  std::size_t bytes = 0;                               ///< size of one rank's part: `bytes` of algorithms.h
  std::size_t element_bytes = 1;                       ///< size of an element; no part ends inside of one
  ElementType element = ElementType::Float32;          ///< for reductions
  Reduction reduction = Reduction::Sum;                ///< for reductions
  std::vector<std::size_t> send_bytes, receive_bytes;  ///< by rank, for an AllToAll whose parts may differ
  const std::byte* input = nullptr;                    ///< null if the kind has none on this rank
  std::byte* output = nullptr;                         ///< null if the kind has none on this rank

  /// Returns whether the parts of an AllToAll may differ; the same on all ranks.
  [[nodiscard]] bool parts_differ() const { return !send_bytes.empty(); }
};

[[nodiscard]] bool reduces(CollectiveKind kind);

/// Returns this rank's plan for `collective`: with messages, or through shared memory of `shared_memory_bytes`, if that
/// is not 0, for long ones.
[[nodiscard]] Plan plan_of(const Collective& collective, std::uint32_t rank, std::uint32_t world_size,
                           std::size_t shared_memory_bytes);

/// Returns how the elements of `collective` are combined; its function is null if the kind is not a reduction.
[[nodiscard]] Combining combining_of(const Collective& collective);

}  // namespace rollcall::process_group
