#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "runtime/base/environment.h"

namespace rollcall::pack {

/// Runs `rollcall-pack`; `arguments` lack the program's name. SOURCE_DATE_EPOCH in the environment replaces the clock,
/// for bitwise reproducible files (reproducible-builds.org). Progress goes to stderr. Returns the exit code and never
/// throws.
int run(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out,
        std::ostream& err) noexcept;

}  // namespace rollcall::pack
