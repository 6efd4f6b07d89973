#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"

namespace rollcall {

/// For execv(3) and its kin: a pointer to each of `texts`, as long as these live, and a null pointer.
[[nodiscard]] std::vector<char*> pointers_to(const std::vector<std::string>& texts);

struct ChildOptions {
  std::optional<std::chrono::duration<double>> patience{};  ///< it is killed when it runs longer; nothing: for ever
  bool alone = false;  ///< reads nothing and shows nothing: /dev/null is its input, standard error goes to the text too
};

/// What a program wrote, and how it ended.
struct ChildOutput {
  std::string text;     ///< at most 1 MiB of it
  int exit_code = 0;    ///< 128 + number where a signal ended it
  bool killed = false;  ///< its time was up
};

/// Runs a program to its end and keeps its standard output; standard input and error are this process's own unless
/// `options` say otherwise. No shell is involved. `command`: the name, looked up in this process's PATH where it has no
/// '/', then the arguments. Error (Unavailable): it cannot be started.
[[nodiscard]] Result<ChildOutput> run_and_capture(const std::vector<std::string>& command,
                                                  const Environment& environment, const ChildOptions& options = {});

/// The text of a program that is run alone and ends well. Errors (Unavailable): it cannot be started, ended with
/// another status than 0 (the last line of its text is part of the reason), or was killed since it ran longer than
/// `patience`.
[[nodiscard]] Result<std::string> output_of(const std::vector<std::string>& command, const Environment& environment,
                                            std::chrono::duration<double> patience);

}  // namespace rollcall
