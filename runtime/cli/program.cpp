#include "runtime/cli/program.h"

#include <array>
#include <cerrno>
#include <optional>
#include <string>

#include "runtime/base/text.h"
#include "runtime/cli/command.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/plugin_profile.h"
#include "runtime/launchers/slurm.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/settings/markdown.h"

namespace rollcall::cli {
namespace {

using command_line::ParsedCommandLine;
using settings::Settings;

struct Output {
  std::ostream& out;
  std::ostream& err;
};

/// The launch settings with every layer applied, the command line last; `parsed` receives the rest of it. Where the
/// layers cannot be read that is the error, unless there is a place for it, `broken_or_null`.
Result<Settings> read_settings(std::span<const command_line::Flag> flags, std::span<const std::string> arguments,
                               command_line::StopAt stop, const Environment& environment, ParsedCommandLine& parsed,
                               Settings& options, std::optional<Error>* broken_or_null = nullptr) {
  const job::PluginProfile profile = job::profile_of_plugin(environment);
  Result<Settings> launch =
      settings::load_launch_settings(environment, {.site_file = profile.file, .site_doubt = profile.doubt});
  // --help must answer even where a file is broken, so the command line is read first, into the defaults if need be.
  Settings values = launch ? *launch : Settings(settings::launch_table());
  const std::array<Settings*, 2> targets{&options, &values};
  Result<ParsedCommandLine> line = command_line::parse_command_line(targets, flags, arguments, stop);
  if (!line) {
    return line.error();
  }
  parsed = *std::move(line);
  if (!launch && !parsed.has("help") && !parsed.has("version")) {
    if (broken_or_null == nullptr) {
      return launch.error();
    }
    *broken_or_null = launch.error();
  }
  return values;
}

Result<void> run_command(const Command& command, std::span<const std::string> arguments, const Environment& environment,
                         Output output) {
  ParsedCommandLine line;
  Settings options(command.table);
  std::optional<Error> broken;
  Result<Settings> values = read_settings(command.flags, arguments, command.stop, environment, line, options,
                                          command.mends_profiles ? &broken : nullptr);
  if (!values) {
    return values.error();
  }
  if (line.has("help")) {
    output.out << command_help(command);
    return {};
  }
  CommandContext context{environment, *std::move(values), std::move(options), std::move(line),
                         output.out,  output.err,         std::move(broken)};
  return command.run(context);
}

Error unknown_command(const std::string& name) {
  std::vector<std::string> known{"help"};
  for (const Command& command : all_commands()) {
    known.emplace_back(command.name);
  }
  const std::optional<std::string> meant = nearest(name, known);
  return fail(name, "", "unknown command", meant ? "rollcall " + *meant : "rollcall --help");
}

/// `rollcall NAME` is `rollcall-NAME` from PATH, as with git: heavy programs stay out of this one.
Error fall_through(std::span<const std::string> arguments) {
  const std::string& name = arguments.front();
  if (name.empty() || name.find('/') != std::string::npos) {
    return unknown_command(name);
  }
  std::vector<std::string> program(arguments.begin(), arguments.end());
  program.front() = "rollcall-" + name;
  const int error_number = become_program(program);
  if (error_number == ENOENT) {
    return unknown_command(name);
  }
  return fail(program.front(), "", errno_text(error_number), "a program that can be executed", ExitCode::NotExecutable);
}

Result<void> run_help(std::span<const std::string> names, std::ostream& out) {
  if (names.empty()) {
    out << program_help();
    return {};
  }
  const Command* const command = find_command(names.front());
  if (command == nullptr) {
    return unknown_command(names.front());
  }
  out << command_help(*command);
  return {};
}

/// `rollcall --option ...`, without a command.
Result<void> run_flags(std::span<const std::string> arguments, const Environment& environment, Output output) {
  ParsedCommandLine line;
  Settings none{settings::Table()};
  const Result<Settings> values =
      read_settings(program_flags(), arguments, command_line::StopAt::Separator, environment, line, none);
  if (!values) {
    return values.error();
  }
  if (line.has("help")) {
    output.out << program_help();
  } else if (line.has("version")) {
    output.out << "rollcall " ROLLCALL_VERSION "\n";
  } else if (line.has("print-config")) {
    output.out << settings::print_config(*values, line.has("json"));
    output.out << (line.has("json") ? "" : "\n" + settings::site_text(*values));
  } else {
    return fail("rollcall", "", "no command is given", "rollcall --help");
  }
  return {};
}

Result<void> dispatch(std::span<const std::string> arguments, const Environment& environment, Output output) {
  if (arguments.empty() || arguments.front().starts_with('-')) {
    // Hidden: only the project's own scripts ask for them, to write docs/settings.md and docs/environment.md.
    if (!arguments.empty() && arguments.front() == "--print-settings-markdown") {
      output.out << settings::launch_settings_markdown();
      return {};
    }
    if (!arguments.empty() && arguments.front() == "--print-environment-markdown") {
      output.out << settings::environment_markdown();
      return {};
    }
    return run_flags(arguments, environment, output);
  }
  if (arguments.front() == "help") {
    return run_help(arguments.subspan(1), output.out);
  }
  const Command* const command = find_command(arguments.front());
  return command == nullptr ? fall_through(arguments)
                            : run_command(*command, arguments.subspan(1), environment, output);
}

/// A guess that works before anything is resolved; "0" where nothing says a rank. In a task of srun RANK counts only
/// as torchrun's: it may be a left-over of the user's shell or of an outer step. `salloc` leaves a stale SLURM_PROCID,
/// mpirun those of its daemons, beside a PMIX_RANK of its own.
std::string likely_rank(const Environment& environment) {
  const bool of_srun = !launchers::why_not_a_slurm_task(environment) && !environment.get(env::kTorchElasticRunId);
  const std::string_view first = of_srun ? env::kPmixRank : env::kRank;
  const std::string_view second = of_srun ? env::kSlurmProcId : env::kPmixRank;
  for (const std::string_view name : {first, second, env::kSlurmProcId}) {
    if (std::optional<std::string> rank = environment.get_non_empty(name)) {
      return *std::move(rank);
    }
  }
  return "0";
}

/// Whether this is the task that tells the user. A contradiction of the user's RANK may spare rank 0: then it is rank 1
/// that tells.
bool tells_the_user(const Error& error, const Environment& environment) {
  if (error.of_this_node) {
    return environment.get(env::kSlurmLocalId).value_or("0") == "0";
  }
  const std::string rank = likely_rank(environment);
  switch (error.exit_code) {
    case ExitCode::Usage:
    case ExitCode::Configuration:
      return rank == "0";
    case ExitCode::Mismatch:
      return rank == "0" || rank == "1";
    default:
      return true;
  }
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out,
                std::ostream& err) {
  const Result<void> done = dispatch(arguments, environment, Output{out, err});
  out.flush();
  if (!done) {
    return report_error(done.error(), environment, err);
  }
  if (!out) {
    return report_error(fail("standard output", "", "cannot be written", "another place for it", ExitCode::InputOutput),
                        environment, err);
  }
  return to_int(ExitCode::Success);
}

int report_error(const Error& error, const Environment& environment, std::ostream& err) {
  if (tells_the_user(error, environment)) {
    err << error.message() << std::endl;
  }
  return to_int(error.exit_code);
}

}  // namespace rollcall::cli
