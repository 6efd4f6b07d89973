#pragma once

#include <string_view>

#include "spank_plugin/buffer.h"
#include "spank_plugin/failure.h"
#include "spank_plugin/site.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

// The plugin's work on a node. Work that depends on users' files and values, a name server or a file system runs in the
// tasks' processes, as the job's user and within the job's limits, and there in a program of its own, which can be
// killed if it hangs. slurmstepd belongs to root, is exempt from the kernel's OOM killer, and drains its node if it
// does not end. It only creates the memory that the tasks share.

/// Returns whether srun started this step. The batch script, salloc's interactive step and pam_slurm_adopt's extern
/// step are other steps, whose variables the srun steps inside would inherit.
[[nodiscard]] bool is_srun_step(spank_t spank);

/// Reads a variable of the environment that the step's tasks (before task_init) or this task (in task_init) will have.
[[nodiscard]] bool get_variable(spank_t spank, const char* name, Buffer& value);

/// The data that the tasks of a node get from slurmstepd.
class SharedByTasks {
 public:
  /// Creates the memory and copies a variable. Call it in slurm_spank_user_init.
  void make(spank_t spank);

  /// Returns true in the first task of this node that calls it. Call it only in a task, because the user may write to
  /// the memory.
  [[nodiscard]] bool claim_report() const;
  [[nodiscard]] int descriptor() const { return memory_; }
  /// Returns the step's GPUs on this node; a task may see only its own.
  [[nodiscard]] std::string_view gpus() const { return gpus_.text(); }

 private:
  int memory_ = -1;  ///< -1: each task looks up names itself
  Buffer gpus_;
};

/// Sets the environment of a task before its program starts. `option` is the argument of --ddp. Where the task cannot
/// have its rendezvous, it ends with the error's exit code. Returning an error from the hook would do that only for a
/// `required` plugin, but also under `optional` the program must not run without a rendezvous. Call it in task_init.
void set_up_task(spank_t spank, const Site& site, const char* option, const SharedByTasks& shared);

/// Removes the variables that a rollcall set in another step from a task without --ddp, which would otherwise use the
/// ranks of the outer step. Prints a line where that fails.
void drop_other_steps_variables(spank_t spank, const Site& site);

/// Ends the task because of `failure`, which one task of this node reports.
[[noreturn]] void end_task(const Failure& failure, const SharedByTasks& shared);

// The secret of a step is 128 random bits by which its processes authenticate each other. srun draws it, and each task
// inherits it as a memory file. In between it is a variable of the step's environment, which Slurm does not store,
// unlike the environments of sbatch and salloc.

/// Draws the secret, once in this srun, and sets it in the environment that the tasks' environment is copied from.
/// Programs that srun itself runs (SrunProlog, --epilog) also have it. Call it in slurm_spank_init_post_opt: a later
/// hook is too late for the second and later components of a het step.
[[nodiscard]] Failure draw_secret();

/// The secret of a step in slurmstepd and its tasks.
class StepSecret {
 public:
  /// Removes the secret from the environment of tasks and epilogs. Call it in slurm_spank_user_init.
  void take(spank_t spank);
  /// Gives the task a sealed memfd with "JOB.STEP SECRET", which its program inherits, and sets its number in
  /// ROLLCALL_SECRET_FD. It is a failure where the kernel refuses, because the other tasks would reject this task. Call
  /// it in task_init.
  [[nodiscard]] Failure hand_over(spank_t spank) const;

 private:
  Buffer digits_;
};

/// Writes a line to syslog for each step of srun --ddp, with log=syslog in plugstack.conf. The node of rank 0 writes it
/// when the step has ended there:
///
///     rollcall[4711]: --ddp: user 1000, step 12.0, 2 nodes (jwb[0001-0002]), ended with 0
class StepLog {
 public:
  /// Records the exit status of a task. Call it in slurm_spank_task_exit.
  void task_ended(spank_t spank);
  /// Writes the line without waiting, unlike syslog(3): it is lost where the log does not accept it at once. Call it in
  /// slurm_spank_exit.
  void write(spank_t spank) const;

 private:
  int highest_ = 0;  ///< the highest exit code of this node's tasks; 128 + signal
};

}  // namespace rollcall::spank
