#pragma once

#include <functional>

#include "trainer/distributed/algorithms/segments.h"

namespace rollcall::process_group {

/// The ranks as a ring, each sending to its right neighbour.
struct Ring {
  explicit Ring(const PlanContext& context) : rank(context.rank), size(context.world_size) {}

  [[nodiscard]] std::uint32_t right() const { return (rank + 1) % size; }
  [[nodiscard]] std::uint32_t left() const { return (rank + size - 1) % size; }

  /// The chunk that this rank sends in round `round` of a reduce-scatter; it receives the one before. After the last of
  /// size - 1 rounds it has received chunk `rank`.
  [[nodiscard]] std::uint32_t reduced(std::uint32_t round) const { return (rank + 2 * size - 1 - round) % size; }
  /// Likewise of an all-gather, which begins with each rank's own.
  [[nodiscard]] std::uint32_t gathered(std::uint32_t round) const { return (rank + size - round) % size; }
  [[nodiscard]] std::uint32_t before(std::uint32_t chunk) const { return (chunk + size - 1) % size; }

  std::uint32_t rank;
  std::uint32_t size;
};

/// Calls `visit(round, segment, lane)` for what goes round a ring. Segments travel in blocks of `depth` through all
/// rounds: round by round over whole chunks, forwarding from a bounded number of scratch slots would wait for itself.
/// `lane` is the segment's place in its block.
inline void for_each_in_ring(const PlanContext& context, std::size_t segments, std::uint32_t rounds,
                             const std::function<void(std::uint32_t, std::size_t, std::size_t)>& visit) {
  for (std::size_t block = 0; block < segments; block += context.depth) {
    const std::size_t lanes = std::min(context.depth, segments - block);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        visit(round, block + lane, lane);
      }
    }
  }
}

}  // namespace rollcall::process_group
