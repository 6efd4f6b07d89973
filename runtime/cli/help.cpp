#include "runtime/cli/help.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "runtime/command_line/help_text.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::cli {
namespace {

std::string options_help(std::span<const command_line::Flag> flags, settings::Table own = {}) {
  const std::array<settings::Table, 2> tables{own, settings::launch_table()};
  return command_line::help_text(flags, tables) +
         "\nEach setting can also stand in a TOML file or in a ROLLCALL_* variable. "
         "`rollcall --print-config`\nshows the values that count here, and where they come from.\n";
}

}  // namespace

std::string program_help() {
  std::string text =
      "Starts distributed training on a Slurm cluster.\n\n"
      "Usage: rollcall COMMAND [OPTIONS]\n\nCommands:\n";
  for (const Command& command : all_commands()) {
    fmt::format_to(std::back_inserter(text), "  {:<32}{}\n", command.name, command.summary);
  }
  text +=
      "  help COMMAND                    explain a command, with examples\n"
      "  NAME                            any other: run the program rollcall-NAME from PATH\n\n";
  return text + options_help(program_flags());
}

std::string command_help(const Command& command) {
  return fmt::format("Usage: {}\n\n{}\n{}", command.usage, command.text, options_help(command.flags, command.table));
}

}  // namespace rollcall::cli
