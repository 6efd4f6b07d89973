#pragma once

#include "spank_plugin/failure.h"
#include "spank_plugin/site.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

// The submitting side: what srun, sbatch and salloc do about --ddp, in the program `rollcall` (runtime/hooks/submit.h).

/// Whether slurm_spank_init has work: srun may be asked for --ddp, sbatch or salloc was called in a step of ours, or
/// what was handed to a task prolog is left over. Looks at the command line and the environment only, and may say yes
/// where the program then finds that it is the task's own --ddp.
[[nodiscard]] bool init_has_work(const Site& site);

/// Has the program do the work of `hook`: "init", "option" or "post_opt". `option`: what --ddp was given; null: off, or
/// not known yet.
[[nodiscard]] Failure submit(spank_t spank, const Site& site, const char* hook, const char* option);

/// For slurm_spank_local_user_init, when srun has its step: asks slurmctld where the program said that nodes want it.
void tell_head_address(spank_t spank);

}  // namespace rollcall::spank
