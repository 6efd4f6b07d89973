#pragma once

#include "trainer/distributed/algorithms/algorithms.h"

namespace rollcall::process_group {

// Plans for ranks of one host, which map a part of each other's memory. Data goes through this shared memory in rounds:
// what a rank writes to its own part in one round, the others add or copy from there in the next. Between rounds each
// rank sends each other rank a word, so that the ranks synchronise once in a round and not once in a segment of a ring.
// The idea is that of
//   R. Graham, G. Shipman, "MPI support for multi-core architectures: optimized shared memory collectives", EuroPVM/MPI
//     2008

/// Returns whether a collective goes through shared memory; `bytes` is the size of its larger area on one rank. The
/// same on all ranks.
[[nodiscard]] inline bool uses_shared_memory(const PlanContext& context, std::size_t bytes) {
  return context.shared_memory_bytes > 0 && context.world_size > 1 && bytes > context.shared_memory_above_bytes;
}

// The variants of plan_...() in algorithms.h for more than one rank. Each rank has two parts of shared memory that
// plans use by turns: a rank that is done may begin the next plan while another rank still reads the previous part. No
// rank gets two plans ahead, since each plan needs a word of every rank.
[[nodiscard]] Plan shared_memory_all_reduce(const PlanContext& context, std::size_t bytes);
[[nodiscard]] Plan shared_memory_reduce_scatter(const PlanContext& context, std::size_t bytes);
[[nodiscard]] Plan shared_memory_all_gather(const PlanContext& context, std::size_t bytes);
[[nodiscard]] Plan shared_memory_all_to_all(const PlanContext& context, std::size_t bytes);

}  // namespace rollcall::process_group
