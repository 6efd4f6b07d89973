#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {

/// Returns "rollcall 0.1.0 with LibTorch 2.15.0" of this program.
[[nodiscard]] std::string version_of_ranks();

/// Checks that this rank's version and settings equal rank 0's, except settings of its own node
/// (config::may_differ_among_ranks()). Each rank reads its own command line, variables and profiles; ranks with
/// different learning rates or seeds would silently train models that diverge. Ranks of two versions may disagree on
/// what they exchange, compute and save, though their settings are equal. `json`: TrainConfig::json of `mine`.
/// Collective; the outcome is this rank's, and the ranks agree on it later. Errors: Mismatch, which names setting,
/// values and host, or both versions; Unavailable: a peer was lost.
[[nodiscard]] Result<void> confirm_equal_settings(const JobContext& context, const settings::Settings& mine,
                                                  const std::string& json,
                                                  const std::string& version = version_of_ranks());

}  // namespace rollcall::train
