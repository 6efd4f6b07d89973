#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"

namespace rollcall {

/// What a program wrote to its standard output, and how it ended.
struct ChildOutput {
  std::string text;
  int exit_code = 0;  ///< 128 + number where a signal ended it
};

/// Runs a program to its end and keeps its standard output; standard input and error are this process's own. No shell
/// is involved. `command`: the name, looked up in this process's PATH where it has no '/', then the arguments. Error
/// (Unavailable): it cannot be started.
[[nodiscard]] Result<ChildOutput> run_and_capture(const std::vector<std::string>& command,
                                                  const Environment& environment);

}  // namespace rollcall
