#pragma once

#include <cstdint>

namespace rollcall::metrics {

/// The parts of the time of steps on one rank, in seconds, summed over `steps`. With a GPU these are times of the host:
/// GPU work appears in the part in which the host waits for it. Plain value.
struct StepTimes {
  std::int64_t steps = 0;
  double data = 0;       ///< waiting for the batch
  double forward = 0;    ///< model and loss
  double backward = 0;   ///< gradients, and the part of their all-reduce that does not overlap
  double wait = 0;       ///< the all-reduce of the step's totals, which waits for the slowest rank
  double optimizer = 0;  ///< clipping and the update
  double elapsed = 0;    ///< the whole time, including other work

  StepTimes& operator+=(const StepTimes& other) {
    steps += other.steps;
    data += other.data;
    forward += other.forward;
    backward += other.backward;
    wait += other.wait;
    optimizer += other.optimizer;
    elapsed += other.elapsed;
    return *this;
  }
};

}  // namespace rollcall::metrics
