#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace rollcall::checkpoint_tool {

/// `rollcall-checkpoint`: `arguments` without the program's own name. Progress goes to stderr. Gives the exit code;
/// nothing is thrown.
int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) noexcept;

/// `rollcall-checkpoint --help`, and that of one command. Every line has at most 110 columns.
[[nodiscard]] std::string program_help();
struct Command;
[[nodiscard]] std::string command_help(const Command& command);

}  // namespace rollcall::checkpoint_tool
