#pragma once

#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/command_line/command_line.h"
#include "runtime/command_line/help.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::cli {

/// The input of a command: the parsed command line, and the launch settings with every layer applied.
struct CommandContext {
  const Environment& environment;  ///< environment of this process
  settings::LaunchSettings settings;
  settings::Settings options;  ///< values of Command::table
  command_line::ParsedCommandLine line;
  std::ostream& out;  ///< for results; messages go to `err`
  std::ostream& err;
  std::optional<Error> broken_settings{};  ///< why `settings` has the defaults, with Command::mends_profiles
};

/// One command of `rollcall`: a row of the table that dispatch, help and completion are made from.
struct Command {
  std::string_view name;
  std::string_view summary;  ///< one clause, for `rollcall --help`
  std::string_view usage;    ///< "rollcall env [OPTIONS]"
  std::string_view text;     ///< description and examples of `rollcall help NAME`; every line ends with a line feed
  std::span<const command_line::Flag> flags;
  command_line::StopAt stop = command_line::StopAt::Separator;
  Result<void> (*run)(CommandContext& context) = nullptr;
  settings::Table table{};      ///< the command's own options with values; they are only read from the command line
  bool mends_profiles = false;  ///< runs with the defaults if a profile cannot be read, since it may repair it
  /// Replaces `run` for a command with the command line of another program and the exit code of the user's program. It
  /// reads its arguments, reports its errors and returns the exit code. `table` has its options for the help.
  int (*run_whole)(std::span<const std::string> arguments, const Environment& environment, std::ostream& out,
                   std::ostream& err) = nullptr;
  std::span<const command_line::Word> words{};  ///< what its argument may be, for completion
};

/// Returns all commands in the order of the help.
[[nodiscard]] std::span<const Command> all_commands();
/// Returns the command of that name, or null.
[[nodiscard]] const Command* find_command(std::string_view name);

/// Returns the flags of `rollcall` without a command.
[[nodiscard]] std::span<const command_line::Flag> program_flags();

/// A program of the project that is not a part of `rollcall`: `rollcall train` runs rollcall-train.
struct Program {
  std::string_view name;     ///< "train"
  std::string_view summary;  ///< one clause, for `rollcall --help`
};

/// Returns what `rollcall --version --json` prints: command_line::build_facts(), with "slurm": the versions that the
/// SPANK plugins of this installation were built for, and "features".
[[nodiscard]] std::string version_json();

/// Returns all programs with names "rollcall-NAME", in the order of the help.
[[nodiscard]] std::span<const Program> all_programs();

// These return what `--help=TOPIC` prints; see command_line::help_text().

/// `rollcall --help`: usage, commands, programs, options.
[[nodiscard]] Result<std::string> program_help(std::string_view topic);
/// `rollcall help COMMAND`: usage, text with examples, options.
[[nodiscard]] Result<std::string> command_help(const Command& command, std::string_view topic);
/// `rollcall help settings`: every launch setting.
[[nodiscard]] Result<std::string> settings_help(std::string_view topic);

// The functions of the rows, each in a file of its name.

/// Runs `rollcall env`: resolves this step and prints the changes of the environment.
[[nodiscard]] Result<void> run_env(CommandContext& context);

/// Runs `rollcall exec`: resolves this step, applies the changes to this process and becomes the program. Returns only
/// an error.
[[nodiscard]] Result<void> run_exec(CommandContext& context);

/// Becomes `program`, whose first word is looked up in this process's PATH. Standard files and signal dispositions stay
/// as they are. Returns errno if that failed.
[[nodiscard]] int become_program(const std::vector<std::string>& program);

/// Returns the options of `rollcall doctor` with values: --only, --skip, --collectives.
[[nodiscard]] settings::Table doctor_table();

/// Runs `rollcall doctor`: examines the step or this machine and prints one report. Error (Unavailable): a check
/// failed.
[[nodiscard]] Result<void> run_doctor(CommandContext& context);

/// Returns the options of `rollcall run`: those of torchrun, and others.
[[nodiscard]] settings::Table run_options_table();

/// Runs `rollcall run`: starts workers on this node as torchrun does, or shows what such runs are doing. Returns the
/// exit code, which is that of the worker that failed first.
[[nodiscard]] int run_run(std::span<const std::string> arguments, const Environment& environment, std::ostream& out,
                          std::ostream& err);

/// Runs `rollcall install` with --user, --site or --status.
[[nodiscard]] Result<void> run_install(CommandContext& context);
/// Runs `rollcall uninstall` with --user or --site.
[[nodiscard]] Result<void> run_uninstall(CommandContext& context);

/// Returns the options of `rollcall install` with values: --slurm-conf, --root, --plugin, --config-owner, --profile.
[[nodiscard]] settings::Table install_table();
/// Returns those of `rollcall uninstall`: --slurm-conf, --root.
[[nodiscard]] settings::Table uninstall_table();

/// Runs `rollcall completion SHELL`, which prints the script.
[[nodiscard]] Result<void> run_completion(CommandContext& context);

/// Returns the completion script of a shell, which is a file of this installation. Errors: Usage: an unknown shell;
/// NoInput: the installation does not have it. `option` is what names the shell, and `advice` what to try, for the
/// error.
[[nodiscard]] Result<std::string> completion_script(const std::string& option, const std::string& shell,
                                                    const std::string& advice);

}  // namespace rollcall::cli
