#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/data/datasets/datasets.h"
#include "trainer/train/world.h"

namespace rollcall::train {

// What every rank reads for itself and all must have alike: ranks that differ in it would train different models.

/// Success where this rank's settings are rank 0's, but for those of its own node (config::may_differ_among_ranks()).
/// Each rank reads its own command line, variables and profiles; ranks with other learning rates or seeds would train
/// without a word models that never meet. `json`: TrainConfig::json of `mine`. Collective; the outcome is this rank's
/// alone, for the ranks to agree on. Errors: Mismatch, which names setting, values and host; Unavailable where a peer
/// was lost.
[[nodiscard]] Result<void> confirm_equal_settings(const World& world, const settings::Settings& mine,
                                                  const std::string& json);

/// Whether all ranks have opened the same data: each may have found other files under its path. Collective.
/// Errors: Mismatch, the same on all ranks: names the first rank that has others than rank 0; Unavailable: a peer was
/// lost.
[[nodiscard]] Result<void> confirm_equal_data(const World& world, const data::Datasets& mine, const std::string& given);

/// Rank 0's numbers on all ranks, which give equally many. Collective. Errors (Unavailable): a peer was lost.
[[nodiscard]] Result<std::vector<std::int64_t>> of_rank_zero(const std::vector<std::int64_t>& mine, const World& world);

}  // namespace rollcall::train
