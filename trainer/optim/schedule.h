#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::optim {

/// The schedule of the learning rate after the warm-up.
enum class ScheduleKind {
  None,        ///< constant
  Cosine,      ///< half a cosine down to the end (Loshchilov and Hutter 2016, without restarts; CosineAnnealingLR)
  Linear,      ///< a line down to the end (torch's LinearLR)
  Polynomial,  ///< (1 - progress) ^ `power` down to the end (torch's PolynomialLR, which ends at 0)
  OneCycle,    ///< half a cosine up and half a cosine down to the end (OneCycleLR with cycle_momentum=False)
  Step,        ///< multiplied by `drop_factor` every `steps_per_drop` steps (StepLR)
  Milestones,  ///< multiplied by `drop_factor` at each of `milestones` (MultiStepLR)
};

/// All counts are optimizer steps from the beginning of training.
struct ScheduleOptions {
  double learning_rate = 0;  ///< the learning rate at the end of the warm-up
  ScheduleKind kind = ScheduleKind::None;
  std::int64_t warmup_steps = 0;
  double warmup_start_factor = 0;  ///< the warm-up begins near this fraction of `learning_rate`
  std::int64_t total_steps = 0;  ///< for schedules that end with the training: the step at which the rate is at its end
  double end_factor = 0;         ///< for these: the end as a fraction of `learning_rate`
  double power = 1;              ///< for Polynomial; above 0
  /// For Step; at least 1. Counted from step 0, including the warm-up, as in Goyal et al. 2017.
  std::int64_t steps_per_drop = 1;
  std::vector<std::int64_t> milestones{};  ///< for Milestones: steps, counted as for Step
  double drop_factor = 0.1;                ///< for Step and Milestones
};

/// Parses "none", "cosine", "linear", "polynomial", "one-cycle", "step" or "milestones". Errors (Usage): any other
/// text.
[[nodiscard]] Result<ScheduleKind> parse_schedule(std::string_view text);

/// Returns whether the schedule depends on the length of the training, `total_steps`.
[[nodiscard]] bool ends_with_training(ScheduleKind kind);

/// Returns the learning rate of step `step`, from 0. In the warm-up (step < warmup_steps) it is learning_rate * (f +
/// (1 - f) * (step + 1) / warmup_steps) for all kinds but OneCycle, f = warmup_start_factor (Goyal et al. 2017,
/// section 2.2). Pure: a resumed run needs no state of it.
[[nodiscard]] double learning_rate(const ScheduleOptions& options, std::int64_t step);

}  // namespace rollcall::optim
