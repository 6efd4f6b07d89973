#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "runtime/base/environment.h"

namespace rollcall::pack {

/// `rollcall-pack`: `arguments` without the program's own name. SOURCE_DATE_EPOCH in the environment takes the place of
/// the clock, for files that are equal to the last bit (reproducible-builds.org). Progress goes to stderr. Gives the
/// exit code; nothing is thrown.
int run(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out,
        std::ostream& err) noexcept;

}  // namespace rollcall::pack
