#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "runtime/base/environment.h"

namespace rollcall::cli {

/// The whole of `rollcall`: finds the command, loads the settings, runs it, reports its error. `arguments` lacks the
/// program's name. Returns the exit code; does not return where it became another program.
int run_program(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out,
                std::ostream& err);

}  // namespace rollcall::cli
