#pragma once

#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/command_line/command_line.h"
#include "runtime/settings/settings.h"

namespace rollcall::cli {

/// What a command works with: the command line is parsed, every layer of the launch settings is applied.
struct CommandContext {
  const Environment& environment;  ///< of this process
  settings::Settings settings;
  settings::Settings options;  ///< of Command::table
  command_line::ParsedCommandLine line;
  std::ostream& out;  ///< results; messages go to `err`
  std::ostream& err;
};

/// One subcommand of `rollcall`: a row of the table from which dispatch, help and completion come.
struct Command {
  std::string_view name;
  std::string_view summary;  ///< one clause, for `rollcall --help`
  std::string_view usage;    ///< "rollcall env [OPTIONS]"
  std::string_view text;     ///< paragraphs of `rollcall help NAME`; every line ends with a line feed
  std::span<const command_line::Flag> flags;
  command_line::StopAt stop = command_line::StopAt::Separator;
  Result<void> (*run)(CommandContext& context) = nullptr;
  settings::Table table{};  ///< options of this command alone that take a value; the command line is their only layer
};

/// All subcommands, in the order of the help.
[[nodiscard]] std::span<const Command> all_commands();
/// The command of that name, or null.
[[nodiscard]] const Command* find_command(std::string_view name);

/// The flags that `rollcall` takes without a command.
[[nodiscard]] std::span<const command_line::Flag> program_flags();

}  // namespace rollcall::cli
