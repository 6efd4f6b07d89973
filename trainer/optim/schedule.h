#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"

namespace rollcall::optim {

/// The course of the learning rate after the warm-up.
enum class ScheduleKind {
  None,    ///< stays at its value
  Cosine,  ///< half a cosine from the value to 0 at `total_steps` (Loshchilov and Hutter 2016, without restarts)
  Step,    ///< times `drop_factor` every `steps_per_drop` steps
};

/// All counts are optimizer steps from the beginning of training.
struct ScheduleOptions {
  double learning_rate = 0;  ///< the value that the warm-up reaches
  ScheduleKind kind = ScheduleKind::None;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  ///< Cosine: where it reaches 0
  std::int64_t steps_per_drop =
      1;                     ///< Step; at least 1. Counted from step 0, warm-up included, as Goyal et al. 2017 do
  double drop_factor = 0.1;  ///< Step
};

/// "none", "cosine" or "step". Errors (Usage): anything else.
[[nodiscard]] Result<ScheduleKind> parse_schedule(std::string_view text);

/// The learning rate of step `step` (0 is the first). In the warm-up (step < warmup_steps) it is
/// learning_rate * (step + 1) / warmup_steps, whatever the kind. Pure: a resumed run needs no state to go on.
[[nodiscard]] double learning_rate(const ScheduleOptions& options, std::int64_t step);

}  // namespace rollcall::optim
