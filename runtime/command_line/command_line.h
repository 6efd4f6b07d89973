#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::command_line {

/// An option that is not a setting and takes no value, such as --version. Only --help may have one: help_topic.
struct Flag {
  std::string_view name;  ///< "help" for --help
  char letter = 0;        ///< 'h' for -h; 0: none
  std::string_view help;  ///< a sentence without its full stop; empty: --help does not show the flag
};

/// What a command line has besides the settings.
struct ParsedCommandLine {
  std::vector<std::string> flags;       ///< names of the flags that were given
  std::string help_topic;               ///< "all" for --help=all; empty for --help alone
  std::vector<std::string> positional;  ///< arguments that are neither options nor values
  std::vector<std::string> program;  ///< all after "--", or from the first positional argument on (StopAt::Positional)

  [[nodiscard]] bool has(std::string_view flag) const;
};

enum class StopAt {
  Separator,   ///< options and positional arguments may be mixed until "--"
  Positional,  ///< the first positional argument begins another program's command line, which is not read
};

/// Reads a command line into the settings of one or more tables. `arguments` has no program name.
///
/// It accepts `--name=value`, `--name value`, switches without a value (`--debug`), `--name=` (an empty value), flags
/// and their letters. An option of several tables is set in the first. The last of repeated options counts. Errors
/// (Usage): an unknown option, with the nearest known one; a missing value; a value that the setting refuses; a value
/// for a flag other than --help. Options before the error stay applied.
[[nodiscard]] Result<ParsedCommandLine> parse_command_line(std::span<settings::Settings* const> targets,
                                                           std::span<const Flag> flags,
                                                           std::span<const std::string> arguments,
                                                           StopAt stop = StopAt::Separator);

/// Whether the locale says that a terminal shows UTF-8 (locale(7)).
[[nodiscard]] bool speaks_utf8(const Environment& environment);

/// Returns the rows of a table for people. All have the same number of cells. Each column is as wide as its longest
/// cell, with two blanks between columns. Control characters are shown as "?" (printable()). Cells must be ASCII to be
/// aligned.
[[nodiscard]] std::string text_table(std::vector<std::vector<std::string>> rows);

}  // namespace rollcall::command_line
