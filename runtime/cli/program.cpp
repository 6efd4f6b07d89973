#include "runtime/cli/program.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "runtime/base/first_on_host.h"
#include "runtime/base/sigterm.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/cli/command.h"
#include "runtime/contract/deadlines.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/marker.h"
#include "runtime/job/slurm_files.h"
#include "runtime/launchers/likely_rank.h"
#include "runtime/launchers/slurm.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/settings/settings.h"
#include "runtime/step/gather.h"

namespace rollcall::cli {
namespace {

using command_line::ParsedCommandLine;
using settings::Settings;

struct Output {
  std::ostream& out;
  std::ostream& err;
};

/// Returns the launch settings with every layer applied, the command line last. `parsed` receives the rest of the
/// command line. If a layer cannot be read, the error is stored in `broken_or_null`, or returned if that is null.
Result<Settings> read_settings(std::span<const command_line::Flag> flags, std::span<const std::string> arguments,
                               command_line::StopAt stop, const Environment& environment, ParsedCommandLine& parsed,
                               Settings& options, std::optional<Error>* broken_or_null = nullptr) {
  Result<Settings> launch = settings::load_launch_settings(environment, {.site = job::profile_of_plugin(environment)});
  // --help must work even if a file is broken, so the command line is read into the defaults then.
  Settings values = launch ? *launch : Settings(settings::launch_table());
  const std::array<Settings*, 2> targets{&options, &values};
  ASSIGN_OR_RETURN(ParsedCommandLine line, command_line::parse_command_line(targets, flags, arguments, stop));
  parsed = std::move(line);
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
  ASSIGN_OR_RETURN(Settings values, read_settings(command.flags, arguments, command.stop, environment, line, options,
                                                  command.mends_profiles ? &broken : nullptr));
  if (line.has("help")) {
    ASSIGN_OR_RETURN(const std::string text, command_help(command, line.help_topic));
    output.out << text;
    return {};
  }
  CommandContext context{environment, std::move(values), std::move(options), std::move(line),
                         output.out,  output.err,        std::move(broken)};
  return command.run(context);
}

/// The word of `rollcall help settings`, which is neither a command nor a program.
constexpr std::string_view kSettings = "settings";

Error unknown_command(const std::string& name) {
  std::vector<std::string> known{"help", std::string(kSettings)};
  for (const Command& command : all_commands()) {
    known.emplace_back(command.name);
  }
  for (const Program& program : all_programs()) {
    if (program.name == name) {
      return fail(name, "", fmt::format("rollcall-{} is neither beside rollcall nor in PATH", name),
                  "adding its folder to PATH");
    }
    known.emplace_back(program.name);
  }
  const std::optional<std::string> meant = nearest(name, known);
  const std::string advice = meant == kSettings ? "help settings" : meant.value_or("--help");
  return fail(name, "", "unknown command", "rollcall " + advice);
}

/// `rollcall NAME` becomes rollcall-NAME, as git does: heavy programs stay out of this one. The one beside this
/// program, which is of the same version, goes before one in PATH.
Error fall_through(std::span<const std::string> arguments) {
  const std::string& name = arguments.front();
  if (name.empty() || name.find('/') != std::string::npos) {
    return unknown_command(name);
  }
  std::vector<std::string> program(arguments.begin(), arguments.end());
  program.front() = "rollcall-" + name;
  const auto [beside, passed_over] = find_in_installation(program.front());
  if (!passed_over.empty()) {
    return fail(program.front(), "", passed_over + ", so it is not started", "making that writable for its owner alone",
                ErrorKind::Configuration);
  }
  if (beside && std::filesystem::is_regular_file(*beside)) {  // not a folder of that name, as a prefix may have
    program.front() = beside->string();
  }
  const int error_number = become_program(program);
  if (error_number == ENOENT) {
    return unknown_command(name);
  }
  return fail(program.front(), "", errno_text(error_number), "checking that it can be executed",
              ErrorKind::NotExecutable);
}

/// Runs `rollcall help [NAME [TOPIC]]`, which prints what NAME prints for --help=TOPIC.
Result<void> run_help(std::span<const std::string> words, std::ostream& out) {
  constexpr std::string_view kPrefix = "rollcall-";
  std::string name = words.empty() ? "" : words[0];
  const std::string topic = words.size() < 2 ? "" : words[1];
  if (words.size() > 2) {
    return fail("help", words[2], "is one argument too many", "rollcall help NAME GROUP");
  }
  if (name.starts_with(kPrefix)) {
    name.erase(0, kPrefix.size());
  } else if (name.starts_with('-')) {  // rollcall help --help
    name.clear();
  }
  const Command* const command = find_command(name);
  if (command == nullptr && !name.empty() && name != "rollcall" && name != "help" && name != kSettings) {
    return fall_through(std::array{name, topic.empty() ? "--help" : "--help=" + topic});
  }
  ASSIGN_OR_RETURN(const std::string text, command != nullptr  ? command_help(*command, topic)
                                           : name == kSettings ? settings_help(topic)
                                                               : program_help(topic));
  out << text;
  return {};
}

/// `rollcall --option ...`, without a command.
Result<void> run_flags(std::span<const std::string> arguments, const Environment& environment, Output output) {
  ParsedCommandLine line;
  Settings none{settings::Table()};
  ASSIGN_OR_RETURN(const Settings values,
                   read_settings(program_flags(), arguments, command_line::StopAt::Separator, environment, line, none));
  if (line.has("help")) {
    ASSIGN_OR_RETURN(const std::string text, program_help(line.help_topic));
    output.out << text;
  } else if (line.has("version")) {
    output.out << (line.has("json") ? version_json() : "rollcall " ROLLCALL_VERSION "\n");
  } else if (line.has("print-config")) {
    const Result<job::JobFacts> task = launchers::facts_from_slurm(environment);
    if (!task || task->rank == 0) {  // all tasks of a step have the same table
      output.out << settings::print_config(values, line.has("json"));
      output.out << (line.has("json") ? "" : "\n" + settings::site_text(values));
    }
  } else {
    return fail("command line", "", "no command is given", "rollcall --help");
  }
  return {};
}

Result<void> dispatch(std::span<const std::string> arguments, const Environment& environment, Output output) {
  if (arguments.empty() || arguments.front().starts_with('-')) {
    // These two options are for scripts/update-pages.
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

/// The tasks that have an error, as far as the error shows it.
enum class Concerned {
  All,       ///< every task of the step
  FirstTwo,  ///< rank 0 or rank 1: the user's RANK contradicts the step
  ThisNode,  ///< some or all tasks of this node
  ThisTask,
};

Concerned concerned_by(const Error& error) {
  if (error.of_this_node) {
    return Concerned::ThisNode;
  }
  switch (error.kind) {
    case ErrorKind::Usage:
    case ErrorKind::Configuration:
    case ErrorKind::NoInput:
    case ErrorKind::Unavailable:
    case ErrorKind::RendezvousUnanswered:
      return Concerned::All;
    case ErrorKind::Mismatch:
      return Concerned::FirstTwo;
    case ErrorKind::NotFound:
    case ErrorKind::NotExecutable:
      return Concerned::ThisNode;
    default:
      return Concerned::ThisTask;
  }
}

/// Returns a name that the tasks of this step on this node share, or nothing if there is only one, or no task of srun.
std::optional<std::string> name_of_node(const Environment& environment) {
  const Result<job::JobFacts> facts = launchers::facts_from_slurm(environment);
  return facts && facts->local_world_size > 1 ? std::optional(job::step_name(*facts) + "-" + facts->this_host)
                                              : std::nullopt;
}

/// Whether this task reports an error, and how long it stays alive so that other tasks can see that it did.
struct Reporting {
  bool reports = true;
  std::chrono::milliseconds stays{0};
};

Reporting reporting_of(const Error& error, const Environment& environment) {
  const std::uint32_t rank = launchers::likely_rank(environment);
  switch (concerned_by(error)) {
    case Concerned::All:
      return {rank == 0};
    case Concerned::FirstTwo:
      return {rank == 0 || (rank == 1 && step::rank_0_agrees(environment))};
    case Concerned::ThisNode:
      if (const std::optional<std::string> node = name_of_node(environment)) {
        return {is_first_on_host(*node), deadline::kNodeErrorDelay};
      }
      return {};
    case Concerned::ThisTask:
      return {};
  }
  return {};
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out,
                std::ostream& err) {
  const Reporter report = [&err](const std::string& lines) { err << lines << std::flush; };
  const Command* const command = arguments.empty() ? nullptr : find_command(arguments.front());
  if (command != nullptr && command->run_whole != nullptr) {
    const int code = command->run_whole(std::span(arguments).subspan(1), environment, out, err);
    out.flush();
    return code;
  }
  const Result<void> done = dispatch(arguments, environment, Output{out, err});
  out.flush();
  if (!done) {
    return report_error(done.error(), environment, report);
  }
  if (!out) {
    return report_error(
        fail("standard output", "", "cannot be written", "redirecting it to another file", ErrorKind::InputOutput),
        environment, report);
  }
  return to_int(ExitCode::Success);
}

int report_error(const Error& error, const Environment& environment, const Reporter& report,
                 std::chrono::seconds patience) {
  const Reporting reporting = reporting_of(error, environment);
  if (!reporting.reports) {
    wait_for_sigterm(patience);
    return to_int(error.exit_code());
  }
  report(error.message() + "\n");
  if (reporting.stays.count() > 0) {
    std::signal(SIGTERM, SIG_IGN);  // if another task has ended, this one's exit code still counts
    std::this_thread::sleep_for(reporting.stays);
  }
  return to_int(error.exit_code());
}

void report_warning(const Error& warning, const Environment& environment, const Reporter& report) {
  if (launchers::likely_rank(environment) == 0) {
    report(Error{"warning", warning.setting + ": " + warning.value, warning.reason, warning.action}.message() + "\n");
  }
}

}  // namespace rollcall::cli
