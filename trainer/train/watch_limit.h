#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/settings/settings.h"
#include "trainer/train/time_limit.h"

namespace rollcall::train {

/// The limit of this job, by setting save-before-limit; on rank 0 alone, from which the others learn with the step's
/// totals. `environment` outlives it. `warnings` gets why the limit is of no use.
[[nodiscard]] TimeLimit watch_limit(const settings::Settings& settings, const Environment& environment,
                                    std::uint32_t rank, std::vector<std::string>& warnings);

}  // namespace rollcall::train
