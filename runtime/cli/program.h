#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/resolve/resolve.h"

namespace rollcall::cli {

/// The whole of `rollcall`: finds the command, loads the settings, runs it, reports its error. `arguments` lacks the
/// program's name. Returns the exit code; does not return where it became another program.
int run_program(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out,
                std::ostream& err);

/// Prints the error's line, except where it is one that every task of the step has alike (Usage, Configuration) and
/// this is not rank 0 of it: one line a step, not one a task. What is wrong on a node alone is told by its first task,
/// a Mismatch by ranks 0 and 1.
/// Returns the process's exit code.
int report_error(const Error& error, const Environment& environment, std::ostream& err);

/// `rollcall` as a task prolog (contract/env_vars.h): Slurm runs it before each task, as the job's user, with the
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
