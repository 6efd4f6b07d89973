#pragma once

#include "trainer/distributed/algorithms/algorithms.h"

namespace rollcall::process_group {

// Plans among ranks of one host, which see a part of each other's memory: the windows. Data goes through them in
// rounds: what a rank leaves in its window in one round, the others add or copy from there in the next. Between rounds
// each rank tells each other one a word, so that the ranks meet once in a round and not once in a segment of a ring.
// The idea is that of
//   R. Graham, G. Shipman, "MPI support for multi-core architectures: optimized shared memory collectives", EuroPVM/MPI
//     2008

/// Whether a collective of `bytes` on one rank, the larger one of its areas, is carried out so. The same on all ranks.
[[nodiscard]] inline bool uses_windows(const PlanContext& context, std::size_t bytes) {
  return context.window_bytes > 0 && context.world_size > 1 && bytes > context.window_above_bytes;
}

// Of each plan_...() in algorithms.h, with more than one rank. Whoever runs them gives two windows by turns: a rank
// that is through may begin the next such plan while another still reads what it left. Nobody gets so far as the next
// but one: each plan takes a word of every rank.
[[nodiscard]] Plan window_all_reduce(const PlanContext& context, std::size_t bytes);
[[nodiscard]] Plan window_reduce_scatter(const PlanContext& context, std::size_t bytes);
[[nodiscard]] Plan window_all_gather(const PlanContext& context, std::size_t bytes);
[[nodiscard]] Plan window_all_to_all(const PlanContext& context, std::size_t bytes);

}  // namespace rollcall::process_group
