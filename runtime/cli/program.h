#pragma once

#include <functional>
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

/// What shows lines to the user.
using Tell = std::function<void(const std::string& lines)>;

/// Tells the error's line where this task is the one to tell: rank 0 what every task of the step has alike (Usage,
/// Configuration, NoInput, Unavailable), the first that fails of a node what is of this node, ranks 0 and 1 a Mismatch.
/// Who tells for a node of several tasks stays for a second, so that the others see it. Returns the process's exit
/// code.
int report_error(const Error& error, const Environment& environment, const Tell& tell);

/// The same line as a warning, from rank 0: all tasks of the step have it alike.
void report_warning(const Error& warning, const Environment& environment, const Tell& tell);

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
