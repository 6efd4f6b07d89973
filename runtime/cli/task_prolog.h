#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/resolve/env_patch.h"

namespace rollcall::cli {

/// `rollcall` as a task prolog (contract/task_prolog.h): Slurm runs it before each task, as the job's user, with the
/// task's environment, and takes `export NAME=value` and `unset NAME` lines from its standard output. Runs the user's
/// own prolog first, whose values count as the user's. Does nothing where --ddp was not given. Returns the exit code;
/// another than 0 ends the task with it, before its program starts.
[[nodiscard]] int run_task_prolog(const Environment& environment);

/// The lines for a patch, values as they are: Slurm knows no quotes. A value with a line feed cannot be said and
/// becomes a warning. Pure.
[[nodiscard]] std::string task_prolog_lines(const resolve::EnvPatch& patch, std::vector<std::string>& warnings);

/// What `export` and `unset` lines of another prolog do to an environment. Pure.
void apply_task_prolog_lines(std::string_view lines, Environment& environment);

}  // namespace rollcall::cli
