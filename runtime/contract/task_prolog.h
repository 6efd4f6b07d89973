#pragma once

#include <string_view>

namespace rollcall::env {

// Between srun and the nodes where only the user has rollcall (`rollcall install --user`): the srun half of the plugin
// names a task prolog, which is `rollcall` under another name, and hands it the option. srun passes SLURM_* on even
// with
// --export=NONE; the prolog takes all three out of the task's environment.

/// Slurm's own: the program that srun has run before each task.
inline constexpr std::string_view kTaskProlog = "SLURM_TASK_PROLOG";
/// The argument of --ddp, "" for a bare one; unset: --ddp was not given, or off.
inline constexpr std::string_view kHandedOption = "SLURM_ROLLCALL_DDP";
/// What SLURM_TASK_PROLOG was before: the user's own prolog, which runs first.
inline constexpr std::string_view kUsersTaskProlog = "SLURM_ROLLCALL_TASK_PROLOG";

/// Slurm's own, which stays in a task's environment after any task prolog.
inline constexpr std::string_view kScriptContext = "SLURM_SCRIPT_CONTEXT";

/// The file name by which `rollcall` is asked to be a task prolog.
inline constexpr std::string_view kTaskPrologName = "rollcall-task-prolog";

}  // namespace rollcall::env
