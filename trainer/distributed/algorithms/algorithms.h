#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/distributed/algorithms/plan.h"

namespace rollcall::process_group {

/// For whom a plan is made, and by what sizes algorithms are chosen. The same sizes on every rank.
struct PlanContext {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::size_t element_bytes = 1;  ///< no element is ever divided

  /// Up to here latency decides: the fewest rounds, whatever they carry.
  std::size_t small_bytes = std::size_t{32} << 10;
  /// Up to here all-reduce halves and doubles: 2 log2 N rounds where a ring has 2 (N - 1), at the same traffic.
  std::size_t medium_bytes = std::size_t{512} << 10;
  /// A long message travels in segments of at most this, so that adding one overlaps the transfer of the next.
  std::size_t segment_bytes = std::size_t{512} << 10;
  /// Segments of a chunk that go round a ring together; as many as may be under way.
  std::size_t depth = 4;

  /// Memory of each rank that all others see, as ranks of one host can have; 0: there is none.
  std::size_t window_bytes = 0;
  /// Then what is longer than this goes through it rather than in messages.
  std::size_t window_above_bytes = std::size_t{8} << 10;
  /// What a rank leaves there for one other, or for all, at a time: so little that it stays in the cores' caches.
  std::size_t window_part_bytes = std::size_t{256} << 10;
};

// The plan of this rank for each collective. Offsets and sizes are in bytes. Pure; the sources are
//   R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 2005
//     (recursive doubling, halving and doubling, Bruck's all-gather, binomial trees, folding in ranks beyond a power
//     of two)
//   P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009 (rings)
// Every rank ends with the same bits: whatever is combined is combined once, or alike on all.

/// Output, `bytes` on every rank, becomes the combination of all ranks' Output. Traffic 2 (N-1)/N of it and rank, and
/// N log2 N of it in all where it is small.
[[nodiscard]] Plan plan_all_reduce(const PlanContext& context, std::size_t bytes);

/// Output (`bytes`) becomes the combination of part `rank` of all ranks' Input (world_size x bytes); Input stays as it
/// is. Traffic (N-1)/N of Input and rank, the least possible.
[[nodiscard]] Plan plan_reduce_scatter(const PlanContext& context, std::size_t bytes);

/// Output (world_size x `bytes`) becomes all ranks' Input (`bytes`) by rank. Input may be part `rank` of Output.
/// Traffic (N-1)/N of Output and rank, the least possible.
[[nodiscard]] Plan plan_all_gather(const PlanContext& context, std::size_t bytes);

/// Output (`bytes`) becomes `root`'s.
[[nodiscard]] Plan plan_broadcast(const PlanContext& context, std::size_t bytes, std::uint32_t root);

/// Output (world_size x `bytes`, on `root` only) becomes all ranks' Input (`bytes`) by rank.
[[nodiscard]] Plan plan_gather(const PlanContext& context, std::size_t bytes, std::uint32_t root);

/// The part of Output from rank r, `receive_bytes`[r], becomes the part of rank r's Input for this rank, of its
/// `send_bytes`[rank]. Parts lie back to back in the order of ranks.
[[nodiscard]] Plan plan_all_to_all(const PlanContext& context, const std::vector<std::size_t>& send_bytes,
                                   const std::vector<std::size_t>& receive_bytes);

/// The same with `bytes` from each rank to each. Traffic (N-1)/N of Input and rank.
[[nodiscard]] Plan plan_all_to_all(const PlanContext& context, std::size_t bytes);

/// Ends on no rank before it has begun on all.
[[nodiscard]] Plan plan_barrier(const PlanContext& context);

}  // namespace rollcall::process_group
