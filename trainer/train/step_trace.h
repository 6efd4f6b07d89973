#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/metrics/step_trace.h"
#include "trainer/train/observer.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// --trace-steps: what all ranks do in some steps, in one file of the run's folder and one time base.
///
/// The spans are PyTorch's: of RecordFunction, to which any part of the program tells what it does (RECORD_USER_SCOPE)
/// and autograd each of its nodes. A node belongs to the part of the model whose forward pass made it: by its sequence
/// number, as in PyTorch's profiler (torch/csrc/profiler, "forward-backward links"). Where --trace-steps is not given
/// nothing is recorded, and a place that tells costs a look at a list. On a GPU these are the host's times.
///
/// Clocks are compared with rank 0's through the store before the first of the steps: the shortest of several round
/// trips decides (Cristian 1989). The first 64 ranks are traced. One per process; main thread.
class StepTrace {
 public:
  /// Records from now on, if there are steps to trace. All references outlive it.
  StepTrace(const config::RunConfig& config, const World& world, Observer& observer);
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;
  ~StepTrace();

  /// Around each step; collective at the first and the last that is traced, where the file is written and told of; that
  /// it cannot be is a warning. Errors (Unavailable): a peer was lost.
  [[nodiscard]] Result<void> before_step(std::int64_t step);
  [[nodiscard]] Result<void> after_step(std::int64_t step);
  /// The run ends, on all ranks: writes what there is of steps to come.
  [[nodiscard]] Result<void> finish();

 private:
  void compare_clocks();
  [[nodiscard]] Result<void> write();

  const std::optional<config::StepRange> steps_;
  const std::string folder_;
  const World& world_;
  Observer& observer_;
  const bool traced_;  ///< this rank is
  std::uint64_t callback_ = 0;
  bool recording_ = false;
  std::int64_t begun_ = 0;  ///< the current step, on this rank's clock
  std::int64_t ended_ = 0;  ///< the last step
  std::int64_t first_ = 0;  ///< step that was traced
  std::int64_t last_ = 0;
  metrics::ClockOffset clock_;
};

}  // namespace rollcall::train
