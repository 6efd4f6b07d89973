#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/metrics/step_trace.h"
#include "trainer/train/observer/observer.h"
#include "trainer/train/observer/span_recorder.h"
#include "trainer/train/outcome.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// --trace-steps: what the first 64 ranks do in some steps, in one file of the run's folder and one time base. On a GPU
/// the times are the host's, and what they say of computation and communication is left out.
///
/// Before the first of the steps clocks are compared with rank 0's, after the last one rank 0 takes what each rank has,
/// one after the other, and writes it: both by collectives. What one rank cannot make or write is a warning. Main
/// thread.
class StepTrace {
 public:
  /// All references outlive it.
  StepTrace(const config::RunConfig& config, const World& world, Observer& observer);

  /// Around what may be a step; collective at the first and the last that is traced. Errors (Unavailable): a peer was
  /// lost.
  [[nodiscard]] Result<void> before_step(std::int64_t step);
  [[nodiscard]] Result<void> after_step(std::int64_t step);
  /// There was no step to do: the epoch has ended.
  void no_step();
  /// The run ends, on all ranks: what there is of steps to come is written where it finished; where it was interrupted
  /// there may be no time for it.
  [[nodiscard]] Result<void> finish(Ending ending);

 private:
  /// This rank's part of the file.
  struct Part {
    metrics::TraceShares shares;
    std::string events;  ///< empty: it could not be made
  };

  [[nodiscard]] Result<void> compare_clocks();
  [[nodiscard]] Part make_part();
  [[nodiscard]] Result<void> write();
  /// Rank 0: by rank, what it needs of a part besides its events, and these.
  void write_file(const std::vector<nlohmann::json>& heads, const std::vector<std::string>& events);
  void tell(const std::string& file, const std::vector<metrics::TraceShares>& shares, double clock_error);

  const std::optional<config::StepRange> steps_;
  const std::string folder_;
  const World& world_;
  Observer& observer_;
  const std::uint32_t traced_ranks_;
  std::optional<SpanRecorder> recorder_;
  bool begun_ = false;           ///< the first step was, and the file is not written
  std::int64_t step_begun_ = 0;  ///< the current step, on this rank's clock
  std::int64_t step_ended_ = 0;  ///< the last step
  std::int64_t first_ = 0;       ///< step that was traced; 0: none
  std::int64_t last_ = 0;
  metrics::ClockOffset clock_;
};

}  // namespace rollcall::train
