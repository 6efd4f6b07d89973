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
  std::vector<std::string> positional;  ///< arguments that are neither options nor their values
  std::vector<std::string> program;     ///< all after "--", or from the first positional on (StopAt::Positional)

  [[nodiscard]] bool has(std::string_view flag) const;
};

enum class StopAt {
  Separator,   ///< options and positional arguments mix, "--" ends both
  Positional,  ///< the first positional argument starts another program's command line, which is left alone
};

/// Reads a command line into the settings of one or more tables. `arguments` lacks the program's own name.
///
/// Accepted: `--name=value`, `--name value`, switches alone (`--debug`), `--name=` (an empty value), flags and their
/// letters. An option of several settings' tables goes to the first. Repeated: the last one wins.
/// Errors (Usage): unknown option, with the nearest known one; missing value; a value that its setting refuses; a value
/// for a flag. What stood before the error stays applied.
[[nodiscard]] Result<ParsedCommandLine> parse_command_line(std::span<settings::Settings* const> targets,
                                                           std::span<const Flag> flags,
                                                           std::span<const std::string> arguments,
                                                           StopAt stop = StopAt::Separator);

/// Whether a terminal shows UTF-8, by the locale (locale(7)).
[[nodiscard]] bool speaks_utf8(const Environment& environment);

/// Rows of a table for people, all with as many cells: every column as wide as its longest cell, two blanks between
/// columns, no blanks at the ends of lines. What a terminal would take for a command is shown as "?" (printable()).
/// Cells are ASCII, or their columns come out askew.
[[nodiscard]] std::string text_table(std::vector<std::vector<std::string>> rows);

}  // namespace rollcall::command_line
