#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {

/// Checks that this rank's settings equal rank 0's, except those of its own node (config::may_differ_among_ranks()).
/// Each rank reads its own command line, variables and profiles; ranks with different learning rates or seeds would
/// silently train models that diverge. `json`: TrainConfig::json of `mine`. Collective; the outcome is this rank's, and
/// the ranks agree on it later. Errors: Mismatch, which names setting, values and host; Unavailable: a peer was lost.
[[nodiscard]] Result<void> confirm_equal_settings(const JobContext& context, const settings::Settings& mine,
                                                  const std::string& json);

}  // namespace rollcall::train
