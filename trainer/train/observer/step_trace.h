#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/metrics/step_trace.h"
#include "trainer/train/job_context.h"
#include "trainer/train/observer/observer.h"
#include "trainer/train/observer/span_recorder.h"
#include "trainer/train/outcome.h"

namespace rollcall::train {

/// Implements --trace-steps: writes what the first 64 ranks do in some steps into one file of the run's folder, in one
/// time base. On a GPU the times are the host's, and their shares of computation and communication are omitted.
///
/// Before the first of the steps all ranks compare their clocks with rank 0's. After the last one rank 0 receives each
/// rank's part and writes the file. Both are collective. A part that a rank cannot create or write is a warning. Main
/// thread.
class StepTrace {
 public:
  /// All references outlive it.
  StepTrace(const config::RunConfig& config, const JobContext& context, Observer& observer);

  /// Call both around each step; collective at the first and the last traced step. Errors (Unavailable): a peer was
  /// lost.
  [[nodiscard]] Result<void> before_step(std::int64_t step);
  [[nodiscard]] Result<void> after_step(std::int64_t step);
  /// Reports that there was no further step: the epoch has ended.
  void no_step();
  /// Ends the trace on all ranks. Writes an incomplete trace if the run finished; an interrupted run may have no time
  /// for it.
  [[nodiscard]] Result<void> finish(Ending ending);

 private:
  /// This rank's part of the file.
  struct Part {
    metrics::TraceShares shares;
    std::string events;  ///< empty: it could not be created
  };

  [[nodiscard]] Result<void> compare_clocks();
  [[nodiscard]] Part make_part();
  [[nodiscard]] Result<void> write();
  /// Runs on rank 0. `heads`: by rank, the shares and clock error of its part; `events`: by rank, its spans.
  void write_file(const std::vector<nlohmann::json>& heads, const std::vector<std::string>& events);
  void report_shares(const std::string& file, const std::vector<metrics::TraceShares>& shares, double clock_error);

  const std::optional<config::StepRange> steps_;
  const std::string folder_;
  const JobContext& context_;
  Observer& observer_;
  const std::uint32_t traced_ranks_;
  std::optional<SpanRecorder> recorder_;
  bool begun_ = false;           ///< the first step has begun and the file is not written
  std::int64_t step_begun_ = 0;  ///< begin of the current step on this rank's clock
  std::int64_t step_ended_ = 0;  ///< end of the last step
  std::int64_t first_ = 0;       ///< first traced step; 0: none
  std::int64_t last_ = 0;
  metrics::ClockOffset clock_;
};

}  // namespace rollcall::train
