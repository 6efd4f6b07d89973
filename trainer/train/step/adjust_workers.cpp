#include "trainer/train/step/adjust_workers.h"

#include <fmt/format.h>

#include "runtime/base/text.h"
#include "trainer/train/observer/observer.h"
#include "trainer/train/step/training.h"

namespace rollcall::train {

Result<void> adjust_workers(const Run& run, double waited, const metrics::DataWait& step, std::int64_t next_batch) {
  DataPipeline& data = run.training.data;
  const std::optional<int> workers = data.tuning.after_step(waited, step.elapsed, step.loading);
  if (!workers) {
    return {};
  }
  const Result<void> changed = data.continue_with_workers(*workers, next_batch);
  if (changed) {
    run.observer.note(fmt::format("step {}: training waited for data; it continues with {} instead of {}",
                                  run.progress.global_step, counted(*workers, "worker"), step.workers));
    return {};
  }
  run.observer.warn(fmt::format("the number of workers stays {}: {}", step.workers, changed.error().reason));
  data.tuning = {};
  return data.continue_with_workers(step.workers, next_batch);
}

}  // namespace rollcall::train
