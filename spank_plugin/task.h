#pragma once

#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/network/shared_look_ups.h"
#include "spank_plugin/options.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

// The node side. All of it that depends on a user's files and values, on a name server or on a file system runs in the
// tasks' own processes, as the job's user and within the job's limits: what hangs there is ended like a program that
// hangs. slurmstepd, which is root's, is spared by the kernel's OOM killer and drains its node where it does not end,
// only makes what the tasks share.

/// What the tasks of a step on this node have from slurmstepd.
struct SharedByTasks {
  std::optional<network::SharedLookUps> look_ups{};  ///< nothing where memory is short: each task asks for itself
  std::string gpus{};                                ///< the step's GPUs on this node: a task may see only its own
};

/// For slurm_spank_user_init. Copies one variable and asks the kernel for memory; no more.
[[nodiscard]] SharedByTasks share_among_tasks(spank_t spank);

/// Gives the task that is about to start its environment, prints the warnings (rank 0), and ends the task where it
/// cannot have its rendezvous: with the error's exit code, before its program starts. Returning an error would do the
/// same only where plugstack.conf says `required`; a program that was promised a rendezvous must not run without one
/// under `optional` either. Where it takes longer than the setting task.timeout it ends the task, too. For task_init
/// only.
///
/// One task tells the user about a failure: rank 0 about one that all nodes share, the first task that fails of a node
/// about one that is likely this node's alone, rank 1 about one that spares rank 0.
void set_up_task(spank_t spank, const DdpOption& option, const settings::PluginProfile& site, SharedByTasks& shared);

/// Ends the task because of `error`, which is told by rank 0.
[[noreturn]] void end_task(spank_t spank, const Error& error);

/// For a task without --ddp: removes what a rollcall set in another step, from which the environment came. A step
/// inside a step would take the outer one's ranks for its own.
void drop_values_of_other_steps(spank_t spank);

/// One line on the standard error of srun, sbatch, salloc or the task.
void print_error(const Error& error);

}  // namespace rollcall::spank
