#pragma once

#include "runtime/doctor/wire/ring.h"
#include "runtime/doctor/world.h"

namespace rollcall::doctor {

/// Times all-reduce, all-gather, reduce-scatter and broadcast of vectors of growing size on this ring, and checks every
/// result against what the operation must give. Collective. Larger vectors are left out where the network is so slow
/// that they would take seconds; all members decide alike. `error` of the result: a neighbour was lost, or data was
/// wrong.
[[nodiscard]] Benchmark run_benchmark(Ring& ring);

/// One benchmark from those of all members: the slowest member's time counts for every row.
[[nodiscard]] Benchmark combine(const std::vector<Benchmark>& members);

}  // namespace rollcall::doctor
