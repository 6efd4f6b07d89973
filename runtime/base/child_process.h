#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"

namespace rollcall {

/// Returns an argument vector for execv(3): a pointer to each of `texts`, which must outlive it, and a null pointer.
[[nodiscard]] std::vector<char*> pointers_to(const std::vector<std::string>& texts);

struct ChildOptions {
  std::optional<std::chrono::duration<double>> patience{};  ///< the program is killed after this time; unset: no limit
  bool alone = false;  ///< standard input is /dev/null, and standard error is captured with the output
};

/// The output and the exit code of a program.
struct ChildOutput {
  std::string text;     ///< the first MiB of the output
  int exit_code = 0;    ///< 128 + the signal's number where a signal ended the program
  bool killed = false;  ///< whether it was killed at its time limit
};

/// Runs a program to its end and captures its standard output. The program shares this process's standard input and
/// error unless `options` say otherwise. No shell is involved. `command` holds the program, which is searched for in
/// this process's PATH where it has no '/', and its arguments. Error (Unavailable): it cannot be started.
[[nodiscard]] Result<ChildOutput> run_and_capture(const std::vector<std::string>& command,
                                                  const Environment& environment, const ChildOptions& options = {});

/// Runs a program with ChildOptions::alone and returns its output. Errors (Unavailable): it cannot be started, its exit
/// code is not 0 (the reason holds the last line of its output), or it was killed because it ran longer than
/// `patience`.
[[nodiscard]] Result<std::string> output_of(const std::vector<std::string>& command, const Environment& environment,
                                            std::chrono::duration<double> patience);

}  // namespace rollcall
