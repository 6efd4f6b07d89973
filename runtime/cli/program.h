#pragma once

#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/contract/deadlines.h"
#include "runtime/resolve/resolve.h"

namespace rollcall::cli {

/// Runs `rollcall`: finds the command, loads the settings, runs the command and reports its error. `arguments` has no
/// program name. Returns the exit code, or does not return if the process became another program.
int run_program(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out,
                std::ostream& err);

/// Shows lines to the user.
using Reporter = std::function<void(const std::string& lines)>;

/// Shows the error once for all tasks that have it. Rank 0 shows errors of every task (Usage, Configuration, NoInput,
/// Unavailable), ranks 0 and 1 a Mismatch, and the first task that fails on a node shows errors of that node. That task
/// then waits for a second, so that the other tasks can see that it has reported. A task that leaves the report to
/// another one waits until Slurm ends it, at most `patience` (deadlines.h). Returns the exit code of the process.
int report_error(const Error& error, const Environment& environment, const Reporter& report,
                 std::chrono::seconds patience = deadline::kRankZeroReports);

/// Shows the warning on rank 0, since all tasks of the step have the same.
void report_warning(const Error& warning, const Environment& environment, const Reporter& report);

/// Runs `rollcall` as a task prolog (contract/env_vars.h). Slurm runs it before each task, as the job's user, with the
/// task's environment, and applies the lines `export NAME=value` and `unset NAME` of its standard output. It runs the
/// user's own prolog first, and keeps the values of that as the user's. Without --ddp it does nothing else. Returns the
/// exit code. If that is not 0, the task ends with it before its program starts.
[[nodiscard]] int run_task_prolog(const Environment& environment);

/// Returns the lines for a patch. Values are not quoted, since Slurm does not unquote. A value with a line feed cannot
/// be passed, and becomes a warning. Pure.
[[nodiscard]] std::string task_prolog_lines(const resolve::EnvPatch& patch, std::vector<std::string>& warnings);

/// Applies `export` and `unset` lines of another prolog to an environment. Pure.
void apply_task_prolog_lines(std::string_view lines, Environment& environment);

}  // namespace rollcall::cli
