#pragma once

#include "spank_plugin/failure.h"
#include "spank_plugin/site.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

// The plugin's work in srun, sbatch and salloc, which the program `rollcall` does (runtime/hooks/submit.h).

/// Returns whether slurm_spank_init has work: srun may have --ddp, sbatch or salloc was called in a step of rollcall,
/// or variables for a task prolog are left over. It reads only the command line and the environment, and may return
/// true where --ddp belongs to the task's program.
[[nodiscard]] bool init_has_work(const Site& site);

/// Runs `hook` in the program: "init", "option" or "post_opt". `option` is the argument of --ddp; null: off, or not
/// known yet.
[[nodiscard]] Failure submit(spank_t spank, const Site& site, const char* hook, const char* option);

/// Asks slurmctld for the head node's address and exports it, where the program has requested that. Call it in
/// slurm_spank_local_user_init, when srun has created the step.
void export_head_address(spank_t spank);

}  // namespace rollcall::spank
