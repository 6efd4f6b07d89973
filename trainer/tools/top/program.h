#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "runtime/base/environment.h"

namespace rollcall::top {

/// `rollcall-top`: `arguments` without the program's own name. Shows a run on the terminal of standard output until it
/// is told to end. Gives the exit code; nothing is thrown.
int run(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out,
        std::ostream& err) noexcept;

}  // namespace rollcall::top
