#pragma once

#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "spank_plugin/task.h"

namespace rollcall::spank {

/// Whether the task with environment `task` is the one that tells the user about `error`. A failure that all nodes
/// share is told by rank 0 alone; one that is likely this node's alone, by its local rank 0; one that spares rank 0, by
/// rank 1. `step` is null where the step could not be observed.
[[nodiscard]] bool tells_the_user(const Error& error, const Environment& task, const StepOnNode* step);

/// One line on the standard error of srun, sbatch, salloc or the task.
void print_error(const Error& error);

/// Prints the error if this task is to tell it, and ends the task with the error's exit code. For task_init, where the
/// program has not started yet. Returning an error would do the same only where plugstack.conf says `required`; a
/// program that was promised a rendezvous must not run without one under `optional` either.
[[noreturn]] void end_task(const Error& error, const Environment& task, const StepOnNode* step);

}  // namespace rollcall::spank
