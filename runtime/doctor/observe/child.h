#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::doctor {

/// What a program wrote to standard output (at most 1 MiB of it), without a shell: `arguments` is searched for in PATH
/// unless its first element is a path. Standard error goes to the result where the program fails. Errors (Unavailable):
/// it cannot be started, ended with another status than 0, or was killed since it ran longer than `patience`.
[[nodiscard]] Result<std::string> output_of(const std::vector<std::string>& arguments,
                                            std::chrono::duration<double> patience);

}  // namespace rollcall::doctor
