#pragma once

#include <string_view>

#include "spank_plugin/buffer.h"
#include "spank_plugin/failure.h"
#include "spank_plugin/site.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

// The node side. All of it that depends on a user's files and values, on a name server or on a file system runs in the
// tasks' own processes, as the job's user and within the job's limits, and there in a program of its own: what hangs is
// ended like a program that hangs. slurmstepd, which is root's, is spared by the kernel's OOM killer and drains its
// node where it does not end, only makes what the tasks share.

/// Whether this is a step that srun started. Not so: the batch script, salloc's interactive step, pam_slurm_adopt's
/// extern step. What is set there would leak into the srun steps inside.
[[nodiscard]] bool is_srun_step(spank_t spank);

/// A variable of the environment that the step's tasks (before task_init) or this task (in task_init) will have.
[[nodiscard]] bool get_variable(spank_t spank, const char* name, Buffer& value);

/// For slurm_spank_user_init: what the tasks of a node have from slurmstepd. Copies one variable and asks the kernel
/// for memory; no more.
class SharedByTasks {
 public:
  void make(spank_t spank);

  /// Once on this node, for whoever of its tasks asks first. In a task only: its user may write to that memory.
  [[nodiscard]] bool claim_report() const;
  [[nodiscard]] int descriptor() const { return memory_; }
  /// The step's GPUs on this node: a task may see only its own.
  [[nodiscard]] std::string_view gpus() const { return gpus_.text(); }

 private:
  int memory_ = -1;  ///< without: each task looks names up for itself
  Buffer gpus_;
};

/// Gives the task that is about to start its environment and ends it where it cannot have its rendezvous, with the
/// error's exit code, before its program starts: `option` is what --ddp was given. Returning an error would do the same
/// only where plugstack.conf says `required`; a program that was promised a rendezvous must not run without one under
/// `optional` either. For task_init only.
void set_up_task(spank_t spank, const Site& site, const char* option, const SharedByTasks& shared);

/// For a task without --ddp: removes what a rollcall set in another step, from which the environment came. A step
/// inside a step would take the outer one's ranks for its own. Where that is not possible a line says so.
void drop_values_of_other_steps(spank_t spank, const Site& site);

/// Ends the task because of `failure`, which one task of this node tells.
[[noreturn]] void end_task(const Failure& failure, const SharedByTasks& shared);

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

/// With log=syslog in plugstack.conf: a line to the system's log for each step of srun --ddp, from the node of its rank
/// 0 when the step has ended there:
///
///     rollcall[4711]: --ddp: user 1000, step 12.0, 2 nodes (jwb[0001-0002]), ended with 0
class StepLog {
 public:
  /// For slurm_spank_task_exit.
  void task_ended(spank_t spank);
  /// For slurm_spank_exit. Waits for nothing, unlike syslog(3): a line that the log does not take at once is lost.
  void write(spank_t spank) const;

 private:
  int highest_ = 0;  ///< exit code of this node's tasks; 128 + signal
};

}  // namespace rollcall::spank
