#pragma once

#include <cstdint>

namespace rollcall::metrics {

/// What the time of steps went to on one rank: seconds, added up over `steps`. On a device that computes by itself
/// (a GPU) these are the host's seconds: what it had to wait for shows where it waits. Plain value.
struct StepTimes {
  std::int64_t steps = 0;
  double data = 0;       ///< until the batch was there
  double forward = 0;    ///< model and loss
  double backward = 0;   ///< gradients, and what of their exchange they do not hide
  double wait = 0;       ///< the all-reduce of the step's totals: until the slowest rank was there too
  double optimizer = 0;  ///< clipping and the update
  double elapsed = 0;    ///< all of it, with what belongs to none of the parts

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
