#pragma once

#include "runtime/base/result.h"
#include "spank_plugin/slurm_spank.h"
#include "spank_plugin/step_on_node.h"

namespace rollcall::spank {

/// Gives the task that is about to start its environment, prints the warnings (rank 0), and ends the task where it
/// cannot have its rendezvous: with the error's exit code, before its program starts. Returning an error would do the
/// same only where plugstack.conf says `required`; a program that was promised a rendezvous must not run without one
/// under `optional` either. For task_init only.
///
/// One task tells the user about a failure: rank 0 about one that all nodes share, local rank 0 about one that is
/// likely this node's alone, rank 1 about one that spares rank 0.
void set_up_task(spank_t spank, Result<StepOnNode> on_node);

/// One line on the standard error of srun, sbatch, salloc or the task.
void print_error(const Error& error);

}  // namespace rollcall::spank
