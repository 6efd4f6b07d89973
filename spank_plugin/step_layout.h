#pragma once

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/settings/settings.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

/// The facts of the task with environment `task`. They come from that environment, which is one world in a het step,
/// where SPANK's items count within one component; where an item contradicts it in an ordinary step, a warning says so.
///
/// Where only slurmctld knows the node of rank 0 or the order of nodes (--distribution=arbitrary, a het step of `srun A
/// : B`) it is asked for the step's layout: one request, in a het step one for each component until all of the step's
/// nodes are found, 1-9 ms each. For task_init only: around the earlier hooks Slurm 24.11 holds a lock that its own
/// library's requests take, and ends slurmstepd. Errors: facts that contradict each other.
[[nodiscard]] Result<job::JobFacts> task_facts(spank_t spank, const Environment& task,
                                               const settings::Settings& settings);

}  // namespace rollcall::spank
