#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"

namespace rollcall::optim {

/// The schedule of the learning rate after the warm-up.
enum class ScheduleKind {
  None,    ///< constant
  Cosine,  ///< half a cosine down to 0 at `total_steps` (Loshchilov and Hutter 2016, without restarts)
  Step,    ///< multiplied by `drop_factor` every `steps_per_drop` steps
};

/// All counts are optimizer steps from the beginning of training.
struct ScheduleOptions {
  double learning_rate = 0;  ///< the learning rate at the end of the warm-up
  ScheduleKind kind = ScheduleKind::None;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  ///< for Cosine: the step at which the learning rate reaches 0
  /// For Step; at least 1. Counted from step 0, including the warm-up, as in Goyal et al. 2017.
  std::int64_t steps_per_drop = 1;
  double drop_factor = 0.1;  ///< for Step
};

/// Parses "none", "cosine" or "step". Errors (Usage): any other text.
[[nodiscard]] Result<ScheduleKind> parse_schedule(std::string_view text);

/// Returns the learning rate of step `step`, from 0. In the warm-up (step < warmup_steps) it is
/// learning_rate * (step + 1) / warmup_steps for all kinds. Pure: a resumed run needs no state of it.
[[nodiscard]] double learning_rate(const ScheduleOptions& options, std::int64_t step);

}  // namespace rollcall::optim
