#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/tools/bench_collectives/operations.h"

namespace rollcall::bench_collectives {

/// A group that a back end carries.
struct Contestant {
  std::string backend;
  process_group::Group group;
};

struct Measurement {
  std::string operation, backend;
  std::int64_t bytes = 0;
  double seconds = 0;    ///< median over iterations of the slowest rank
  double algorithm = 0;  ///< bytes a second
  double bus = 0;        ///< bytes a second
  bool correct = false;  ///< on all ranks
};

struct Effort {
  int warm_up = 3;
  int iterations = 20;
};

/// Measures one operation on float32 buffers of about `bytes` with each contestant in turn, iteration by iteration, so
/// that all meet the same noise. Collective; the same numbers on every rank. Errors (Unavailable): a peer was lost.
[[nodiscard]] Result<std::vector<Measurement>> measure(const std::vector<Contestant>& contestants,
                                                       const std::string& operation, std::int64_t bytes,
                                                       const Effort& effort);

}  // namespace rollcall::bench_collectives
