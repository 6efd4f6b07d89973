#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/command_line/command_line.h"

namespace rollcall::command_line {

/// What is around every tool: the exit code of `work`, which prints to `out`. An Error of it, output that could not be
/// written, too little memory and whatever is thrown are one line on `err`, with their exit code. `program`: its name;
/// `for_less_memory`: what to try where there is not enough, "--num-workers=1".
[[nodiscard]] int tool_main(std::string_view program, std::string_view for_less_memory, std::ostream& out,
                            std::ostream& err, const std::function<Result<int>()>& work) noexcept;

/// What --help and --version say of a program without subcommands.
struct Tool {
  std::string_view name;          ///< "rollcall-top"
  std::string_view version;       ///< "1.2.3"
  std::string_view usage;         ///< before the options
  std::span<const Flag> flags;    ///< besides --help and --version
  std::string_view closing = {};  ///< behind the options
};

/// Reads a tool's command line into `targets`, whose tables are its options; what stands behind "--" is positional as
/// well. Nothing: --help or --version was asked for, and is printed to `out`. Errors: those of parse_command_line().
[[nodiscard]] Result<std::optional<ParsedCommandLine>> read_tools_command_line(
    const Tool& tool, std::span<settings::Settings* const> targets, std::span<const std::string> arguments,
    std::ostream& out);

}  // namespace rollcall::command_line
