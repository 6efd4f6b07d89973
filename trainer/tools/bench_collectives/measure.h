#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::bench_collectives {

enum class Operation { AllReduce, ReduceScatter, AllGather, Broadcast, AllToAll };

[[nodiscard]] std::optional<Operation> find_operation(std::string_view name);
[[nodiscard]] std::vector<std::string> operation_names();

/// Returns the least number of bytes that a rank must send, as a fraction of its larger buffer: nccl-tests'
/// doc/PERFORMANCE.md.
[[nodiscard]] double bus_factor(Operation operation, std::uint32_t world_size);

[[nodiscard]] double median(std::vector<double> values);

/// A backend under test and its process group.
struct Candidate {
  std::string backend;
  process_group::Group group;
  at::TensorOptions tensors = {};  ///< options of its tensors, such as their device
};

struct Measurement {
  std::string operation, backend;
  std::int64_t bytes = 0;
  double seconds = 0;    ///< time of the slowest rank, median over iterations
  double algorithm = 0;  ///< algorithm bandwidth in bytes per second
  double bus = 0;        ///< bus bandwidth in bytes per second
  bool correct = false;  ///< whether the result is correct on all ranks
};

struct Repetitions {
  int warm_up = 3;
  int iterations = 20;
};

/// Measures one operation on float32 buffers of about `bytes` with each candidate in turn, iteration by iteration, so
/// that all are exposed to the same noise. Collective; the same numbers on every rank. Errors (Unavailable): a peer was
/// lost.
[[nodiscard]] Result<std::vector<Measurement>> measure(const std::vector<Candidate>& candidates,
                                                       const std::string& operation, std::int64_t bytes,
                                                       const Repetitions& repetitions);

}  // namespace rollcall::bench_collectives
