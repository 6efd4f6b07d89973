#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/distributed/algorithms/plan.h"

namespace rollcall::process_group {

/// The rank for which a plan is made, and the sizes by which algorithms are chosen, which are the same on every rank.
struct PlanContext {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::size_t element_bytes = 1;  ///< size of an element; no element is ever divided

  /// Largest size for which latency decides: the algorithm with the fewest rounds is used.
  std::size_t small_bytes = std::size_t{32} << 10;
  /// Largest size for which all-reduce uses halving and doubling: 2 log2 N rounds instead of a ring's 2 (N - 1), with
  /// the same traffic.
  std::size_t medium_bytes = std::size_t{512} << 10;
  /// Largest size of a segment of a long message, so that adding one segment overlaps the transfer of the next.
  std::size_t segment_bytes = std::size_t{512} << 10;
  /// Number of segments of a chunk that are sent around a ring at the same time.
  std::size_t depth = 4;

  /// Size of each rank's shared memory, which all ranks of one host can have; 0: there is none.
  std::size_t shared_memory_bytes = 0;
  /// Size above which data goes through shared memory instead of messages.
  std::size_t shared_memory_above_bytes = std::size_t{8} << 10;
  /// Most data that a rank writes there for one other rank, or for all, at a time: it stays in the CPU's caches.
  std::size_t shared_memory_part_bytes = std::size_t{256} << 10;
};

// These functions return this rank's plan for each collective. Offsets and sizes are in bytes. Pure. The sources are
//   R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 2005
//     (recursive doubling, halving and doubling, Bruck's all-gather, binomial trees, folding in ranks beyond a power
//     of two)
//   P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009 (rings)
// Every rank gets bit-identical results: values are combined once, or in the same way on all ranks.

/// Replaces Output, `bytes` on every rank, by the combination of all ranks' Output. Each rank sends 2 (N-1)/N of it; if
/// it is small, all ranks together send it N log2 N times.
[[nodiscard]] Plan plan_all_reduce(const PlanContext& context, std::size_t bytes);

/// Sets Output (`bytes`) to the combination of part `rank` of all ranks' Input (world_size x bytes); Input is
/// unchanged. Each rank sends (N-1)/N of Input, the least possible.
[[nodiscard]] Plan plan_reduce_scatter(const PlanContext& context, std::size_t bytes);

/// Sets Output (world_size x `bytes`) to all ranks' Input (`bytes`) by rank. Input may be part `rank` of Output. Each
/// rank sends (N-1)/N of Output, the least possible.
[[nodiscard]] Plan plan_all_gather(const PlanContext& context, std::size_t bytes);

/// Sets Output (`bytes`) to that of `root`.
[[nodiscard]] Plan plan_broadcast(const PlanContext& context, std::size_t bytes, std::uint32_t root);

/// Sets Output (world_size x `bytes`, on `root` only) to all ranks' Input (`bytes`) by rank.
[[nodiscard]] Plan plan_gather(const PlanContext& context, std::size_t bytes, std::uint32_t root);

/// Sets part r of Output, `receive_bytes`[r], to the part of rank r's Input for this rank, its `send_bytes`[rank].
/// Parts are back to back in the order of ranks.
[[nodiscard]] Plan plan_all_to_all(const PlanContext& context, const std::vector<std::size_t>& send_bytes,
                                   const std::vector<std::size_t>& receive_bytes);

/// Does the same with `bytes` from each rank to each. Each rank sends (N-1)/N of Input.
[[nodiscard]] Plan plan_all_to_all(const PlanContext& context, std::size_t bytes);

/// Returns the plan of a barrier, which ends on no rank before it has begun on all.
[[nodiscard]] Plan plan_barrier(const PlanContext& context);

}  // namespace rollcall::process_group
