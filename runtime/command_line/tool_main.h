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

/// Runs `work`, which prints to `out`, and returns the exit code of the program. An Error, output that cannot be
/// written, too little memory and any exception become one line on `err` and their exit code. `program` is the
/// program's name, `for_less_memory` what to try if there is not enough memory, such as "--num-workers=1".
[[nodiscard]] int tool_main(std::string_view program, std::string_view for_less_memory, std::ostream& out,
                            std::ostream& err, const std::function<Result<int>()>& work) noexcept;

/// The parts of --help and --version of a program without commands.
struct Tool {
  std::string_view name;          ///< "rollcall-top"
  std::string_view version;       ///< "1.2.3"
  std::string_view usage;         ///< before the options
  std::span<const Flag> flags;    ///< besides --help and --version
  std::string_view closing = {};  ///< after the options
};

/// Reads a tool's command line into `targets`, whose tables are its options; arguments after "--" are positional too.
/// Returns nothing after it has printed --help or --version to `out`. Errors: those of parse_command_line() and
/// help_text().
[[nodiscard]] Result<std::optional<ParsedCommandLine>> read_tools_command_line(
    const Tool& tool, std::span<settings::Settings* const> targets, std::span<const std::string> arguments,
    std::ostream& out);

}  // namespace rollcall::command_line
