#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/resolve/resolve.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

/// The environment of a step or task as SPANK shows it. Everything here is for the remote context (slurmstepd) only: in
/// srun the environment is the process's own. Not thread-safe, as SPANK itself.

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

}  // namespace rollcall::spank
