#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/settings.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

// A step or task as SPANK and, where it does not tell, slurmctld show it. All is for the remote context (slurmstepd)
// only: in srun the environment is the process's own. Not thread-safe, as SPANK itself.

/// One variable of that environment, of any length; nothing where it is unset or SPANK does not tell.
[[nodiscard]] std::optional<std::string> get_variable(spank_t spank, const std::string& name);

/// The whole environment that the step's tasks (before task_init) or this task (in task_init) will have. Slurm's own
/// variables of the task are read one by one on top: not every implementation of SPANK puts them into the array.
[[nodiscard]] Environment snapshot(spank_t spank);

/// Carries out a patch. Error: SPANK refuses a variable.
[[nodiscard]] Result<void> apply(spank_t spank, const resolve::EnvPatch& patch);

/// A 32-bit item (S_JOB_STEPID, S_JOB_NODEID, S_TASK_GLOBAL_ID, ...); nothing where this context has none.
[[nodiscard]] std::optional<std::uint32_t> item(spank_t spank, spank_item_t name);

/// Whether this is a step that srun started. Not so: the batch script, salloc's interactive step, pam_slurm_adopt's
/// extern step. What is set there would leak into the srun steps inside.
[[nodiscard]] bool is_srun_step(spank_t spank);

/// The facts of the task with environment `task`. They come from that environment, which is one world in a het step,
/// where SPANK's items count within one component; where an item contradicts it in an ordinary step, a warning says so.
///
/// Where only slurmctld knows the node of rank 0 or the order of nodes (--distribution=arbitrary, a het step of `srun A
/// : B`) it is asked for the step's layout: one request, in a het step one for each component until all of the step's
/// nodes are found, 1-9 ms each. For task_init only: around the earlier hooks Slurm 24.11 holds a lock that its own
/// library's requests take, and ends slurmstepd. Errors: facts that contradict each other.
[[nodiscard]] Result<job::JobFacts> task_facts(spank_t spank, const Environment& task,
                                               const settings::Settings& settings);

/// The address by which Slurm reaches a node, as slurmctld says: one request. For task_init only, as above. Error: it
/// does not answer, or this Slurm does not offer the question.
[[nodiscard]] Result<std::string> node_address(const std::string& node);

}  // namespace rollcall::spank
