#pragma once

#include <cstdint>

#include "runtime/base/result.h"
#include "trainer/metrics/throughput.h"
#include "trainer/train/step/loop.h"

namespace rollcall::train {

/// Implements --train-num-workers=auto after a step for whose data this rank `waited` seconds. `next_batch`: of the
/// epoch, with which changed workers go on. Errors: not even the former number of workers can be started again.
[[nodiscard]] Result<void> adjust_workers(const Run& run, double waited, const metrics::DataWait& step,
                                          std::int64_t next_batch);

}  // namespace rollcall::train
