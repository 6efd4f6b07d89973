#pragma once

#include "spank_plugin/buffer.h"
#include "spank_plugin/failure.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

// A step's secret, 128 random bits by which its processes know each other: srun draws it, and each task inherits it as
// a file of memory. Only on the way between them it is a variable of the step's environment, which is in no record of
// Slurm's: not in sbatch's and salloc's, whose environments slurmctld keeps.

/// For slurm_spank_init_post_opt in srun, a later hook is too late for all components of a het step but the first:
/// draws it, once in this srun, and puts it into its environment, from which that of the tasks is made. Programs that
/// srun itself runs (SrunProlog, --epilog) see it there.
[[nodiscard]] Failure draw_secret();

class StepSecret {
 public:
  /// For slurm_spank_user_init: takes it out of the environment of tasks and epilogs.
  void take(spank_t spank);
  /// For task_init: gives the task a sealed memfd with "JOB.STEP SECRET" that its program inherits, and its number in
  /// ROLLCALL_SECRET_FD. A failure where the kernel refuses: the other tasks have one, and would not know this task.
  [[nodiscard]] Failure hand_over(spank_t spank) const;

 private:
  Buffer digits_;
};

}  // namespace rollcall::spank
