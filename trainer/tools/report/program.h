#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace rollcall::report_tool {

/// `rollcall-report`: `arguments` without the program's own name. Gives the exit code; nothing is thrown.
int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) noexcept;

}  // namespace rollcall::report_tool
