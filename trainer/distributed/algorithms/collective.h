#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/distributed/algorithms/algorithms.h"
#include "trainer/distributed/algorithms/elements.h"
#include "trainer/distributed/algorithms/execution.h"

namespace rollcall::process_group {

enum class CollectiveKind : std::uint8_t { AllReduce, ReduceScatter, AllGather, Broadcast, Gather, AllToAll, Barrier };

/// A collective as one rank calls it; what each kind makes of input and output is said in algorithms.h. Pure data;
/// owns no tensor's memory.
struct Collective {
  CollectiveKind kind = CollectiveKind::Barrier;
  std::uint32_t root = 0;                      ///< of Broadcast and Gather
  std::size_t bytes = 0;                       ///< of one rank's part: `bytes` of algorithms.h
  std::size_t element_bytes = 1;               ///< no part ends inside of an element
  ElementType element = ElementType::Float32;  ///< of reductions, like the next
  Reduction reduction = Reduction::Sum;
  std::vector<std::size_t> send_bytes, receive_bytes;  ///< of an AllToAll whose parts may differ, by rank
  const std::byte* input = nullptr;                    ///< null where the kind has none on this rank
  std::byte* output = nullptr;                         ///< likewise

  /// Of an AllToAll; the same on all ranks.
  [[nodiscard]] bool parts_differ() const { return !send_bytes.empty(); }
};

[[nodiscard]] bool reduces(CollectiveKind kind);

/// How this rank carries out `collective`: with messages, and long ones through windows of `window_bytes` where that is
/// not 0.
[[nodiscard]] Plan plan_of(const Collective& collective, std::uint32_t rank, std::uint32_t world_size,
                           std::size_t window_bytes);

/// How its elements are combined; a Combining that does nothing where it does not reduce.
[[nodiscard]] Combining combining_of(const Collective& collective);

}  // namespace rollcall::process_group
