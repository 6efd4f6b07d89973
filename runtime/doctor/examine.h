#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/doctor/job_context.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::doctor {

/// Which parts of the examination the caller wants.
struct Expectations {
  bool ring = true;                        ///< connect each node to the next one
  bool benchmark = true;                   ///< measure the ring as well
  std::vector<std::string> collectives{};  ///< backends for rollcall-bench-collectives; empty: it is not run
};

/// Examines this rank's world (in a het step with world=component, its component). Collective: every rank calls it
/// once. Rank 0 gets the `JobContext` once all ranks have reported or rendezvous.timeout has passed; the other ranks
/// get nothing, once rank 0 has received what it needs. A process outside a step is a world of one rank. Ends within
/// about twice rendezvous.timeout in any case. Errors: Slurm's variables are contradictory; this rank cannot find rank
/// 0, or rank 0 died (Unavailable). Errors of the latter kind are returned to the first rank of each node only.
[[nodiscard]] Result<std::optional<JobContext>> examine(const Environment& environment,
                                                        const settings::LaunchSettings& settings,
                                                        const Expectations& expected);

}  // namespace rollcall::doctor
