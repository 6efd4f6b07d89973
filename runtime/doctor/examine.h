#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/doctor/world.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::doctor {

/// What the caller wants to know.
struct Expectations {
  bool ring = true;                        ///< connect each node to the next one
  bool benchmark = true;                   ///< and measure the ring
  std::vector<std::string> collectives{};  ///< backends that rollcall-bench-collectives measures; none: it is not run
};

/// Looks at this rank's world (in a het step with world=component its component): every rank calls it once. Rank 0 gets
/// the World when all ranks have reported, or when rendezvous.timeout is over; the others get nothing, once rank 0 has
/// what it needs of them. A process outside a step is a world of one. Ends within about twice rendezvous.timeout
/// whatever the others do. Errors: Slurm's variables contradict each other; this rank cannot find rank 0, or rank 0
/// died (Unavailable). Of the latter kind only the first rank of a node speaks; the others get nothing.
[[nodiscard]] Result<std::optional<World>> examine(const Environment& environment,
                                                   const settings::LaunchSettings& settings,
                                                   const Expectations& expected);

}  // namespace rollcall::doctor
