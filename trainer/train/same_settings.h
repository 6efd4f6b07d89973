#pragma once

#include <string>

#include "runtime/settings/settings.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Success where this rank's settings are rank 0's, but for those of its own node (config::may_differ_among_ranks()).
/// Each rank reads its own command line, variables and profiles; ranks with other learning rates or seeds would train
/// without a word models that never meet. `json`: TrainConfig::json of `mine`. Collective; the outcome is this rank's
/// alone, for the ranks to agree on. Errors: Mismatch, which names setting, values and host; Unavailable where a peer
/// was lost.
[[nodiscard]] Result<void> confirm_equal_settings(const World& world, const settings::Settings& mine,
                                                  const std::string& json);

}  // namespace rollcall::train
