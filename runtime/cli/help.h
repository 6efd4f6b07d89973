#pragma once

#include <string>

#include "runtime/cli/command.h"

namespace rollcall::cli {

/// `rollcall --help`: usage, the commands, the options.
[[nodiscard]] std::string program_help();

/// `rollcall help NAME`: usage, text with examples, the options.
[[nodiscard]] std::string command_help(const Command& command);

}  // namespace rollcall::cli
