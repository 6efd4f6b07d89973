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
  [[nodiscard]] bool claim_to_speak() const;
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

}  // namespace rollcall::spank
