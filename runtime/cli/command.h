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
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::cli {

/// What a command works with: the command line is parsed, every layer of the launch settings is applied.
struct CommandContext {
  const Environment& environment;  ///< of this process
  settings::LaunchSettings settings;
  settings::Settings options;  ///< of Command::table
  command_line::ParsedCommandLine line;
  std::ostream& out;  ///< results; messages go to `err`
  std::ostream& err;
  std::optional<Error> broken_settings{};  ///< with Command::mends_profiles: why `settings` has the defaults
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
  bool mends_profiles = false;  ///< runs on the defaults where a profile cannot be read, which it may be there to mend
  /// Instead of `run`, for a command with a command line of another program's manner and exit codes of the user's: it
  /// reads its arguments itself, tells its errors and returns the exit code. `table` holds its options, for the help.
  int (*run_whole)(std::span<const std::string> arguments, const Environment& environment, std::ostream& out,
                   std::ostream& err) = nullptr;
};

/// All subcommands, in the order of the help.
[[nodiscard]] std::span<const Command> all_commands();
/// The command of that name, or null.
[[nodiscard]] const Command* find_command(std::string_view name);

/// The flags that `rollcall` takes without a command.
[[nodiscard]] std::span<const command_line::Flag> program_flags();

/// A program of the project that is not a part of `rollcall`: `rollcall train` runs rollcall-train.
struct Program {
  std::string_view name;     ///< "train"
  std::string_view summary;  ///< one clause, for `rollcall --help`
};

/// All programs whose names begin with "rollcall-", in the order of the help.
[[nodiscard]] std::span<const Program> all_programs();

// What `--help=TOPIC` prints; see command_line::help_text().

/// `rollcall --help`: usage, commands, programs, options.
[[nodiscard]] Result<std::string> program_help(std::string_view topic);
/// `rollcall help COMMAND`: usage, text with examples, options.
[[nodiscard]] Result<std::string> command_help(const Command& command, std::string_view topic);
/// `rollcall help settings`: every launch setting.
[[nodiscard]] Result<std::string> settings_help(std::string_view topic);

// What the rows run, each in a file of its name.

/// `rollcall env`: resolves this step and prints what would be done to the environment.
[[nodiscard]] Result<void> run_env(CommandContext& context);

/// `rollcall exec`: resolves this step, applies the patch to this process and becomes the program. Returns only an
/// error.
[[nodiscard]] Result<void> run_exec(CommandContext& context);

/// Becomes `program` (name first, looked up in this process's PATH); open standard files and signal dispositions stay
/// as they are. Returns only where that failed: the errno value.
[[nodiscard]] int become_program(const std::vector<std::string>& program);

/// The options of `rollcall doctor` that take a value: --only, --skip, --collectives. They have no file and no
/// variable.
[[nodiscard]] settings::Table doctor_table();

/// `rollcall doctor`: examines the step or this machine, prints one report. Errors (Unavailable): a check failed.
[[nodiscard]] Result<void> run_doctor(CommandContext& context);

/// The options of `rollcall run`, torchrun's and its own.
[[nodiscard]] settings::Table run_options_table();

/// `rollcall run`: starts workers on this node as torchrun does, or shows what such runs are doing. Returns the exit
/// code: that of the worker that failed first.
[[nodiscard]] int run_run(std::span<const std::string> arguments, const Environment& environment, std::ostream& out,
                          std::ostream& err);

/// `rollcall install`: --user, --site or --status.
[[nodiscard]] Result<void> run_install(CommandContext& context);
/// `rollcall uninstall`: --user or --site.
[[nodiscard]] Result<void> run_uninstall(CommandContext& context);

/// The options of both that take a value: --slurm-conf, --plugin, --profile, --root.
[[nodiscard]] settings::Table install_table();

/// `rollcall completion bash`: prints the script.
[[nodiscard]] Result<void> run_completion(CommandContext& context);

/// A bash script that completes `rollcall`: commands, options, and the fixed values after "--option=".
[[nodiscard]] std::string bash_completion();

}  // namespace rollcall::cli
