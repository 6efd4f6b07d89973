#include "trainer/tools/checkpoint/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <ostream>

#include "runtime/base/text.h"
#include "runtime/command_line/help.h"
#include "runtime/command_line/tool_main.h"

namespace rollcall::checkpoint_tool {
namespace {

constexpr const char* kProgram = "rollcall-checkpoint";

constexpr std::string_view kClosing = R"(
A folder given as CHECKPOINT means the newest checkpoint in it that can be opened.

Examples:
  rollcall-checkpoint ls $SCRATCH/run/checkpoints
  rollcall-checkpoint verify $SCRATCH/run/checkpoints
  rollcall-checkpoint export checkpoints/best.h5 resnet50.safetensors
  rollcall-checkpoint import resnet50.pth start.h5

Exit codes: 0 success; 1 diff: they differ; 64 wrong option or name; 65 damaged or not trusted; 66 does not exist;
73 OUT exists or cannot be created; 74 reading, writing or removing failed; 76 a newer format or another model.
)";

command_line::HelpPage page_of(const Command& command) {
  return {
      .name = fmt::format("{} {}", kProgram, command.name),
      .text = fmt::format("usage: {} {} [OPTIONS] {}\n\n{}", kProgram, command.name, command.arguments, command.text),
      .flags = {command.flags.begin(), command.flags.end()},
      .tables = {command.table}};
}

/// Returns the page of the program. Its lines have at most 110 columns, as those of a command's page.
command_line::HelpPage program_page() {
  command_line::HelpPage page{.name = kProgram,
                              .text =
                                  "Lists, verifies, compares and prunes checkpoints of rollcall-train, and imports "
                                  "and exports weights of\n"
                                  "PyTorch.\n\nusage: rollcall-checkpoint COMMAND [OPTIONS] ...\n\nCommands:\n",
                              .flags = {kHelp, command_line::kVersion},
                              .closing = kClosing};
  for (const Command& command : all_commands()) {
    fmt::format_to(std::back_inserter(page.text), "  {:<32}{}\n", fmt::format("{} {}", command.name, command.arguments),
                   command.summary);
    page.commands.push_back(page_of(command));
    page.words.push_back({command.name, command.summary});
  }
  page.words.push_back({"help", "explain a command, with examples"});
  page.text += "  help COMMAND                    explain a command, with examples (also: COMMAND --help)\n";
  return page;
}

Result<int> print_help(const command_line::HelpPage& page, std::string_view topic, std::ostream& out) {
  ASSIGN_OR_RETURN(const std::string text, command_line::help_text(page, topic));
  out << text;
  return to_int(ExitCode::Success);
}

Error unknown_command(const std::string& name) {
  std::vector<std::string> known;
  for (const Command& command : all_commands()) {
    known.emplace_back(command.name);
  }
  const auto meant = nearest(name, known);
  return fail("command line", name, "unknown command", fmt::format("{} {}", kProgram, meant.value_or("--help")));
}

Result<void> check_count(const Command& command, const std::vector<std::string>& arguments) {
  const std::string usage = fmt::format("{} {} {}", kProgram, command.name, command.arguments);
  if (arguments.size() < command.min_arguments) {
    return fail(std::string(command.name), "", "an argument is missing", usage);
  }
  if (arguments.size() > command.max_arguments) {
    return fail(std::string(command.name), arguments[command.max_arguments], "unexpected argument", usage);
  }
  return {};
}

Result<int> run_command(const Command& command, std::span<const std::string> arguments, std::ostream& out) {
  settings::Settings options{command.table};
  const std::array targets{&options};
  ASSIGN_OR_RETURN(auto line, command_line::parse_command_line(targets, command.flags, arguments));
  if (line.has(kHelp.name)) {
    return print_help(page_of(command), line.help_topic, out);
  }
  std::vector<std::string> positional = line.positional;
  positional.insert(positional.end(), line.program.begin(), line.program.end());  // after "--"
  RETURN_IF_ERROR(check_count(command, positional));
  const auto style = settings::find_setting(command.table, "progress") == nullptr
                         ? metrics::WorkProgress::Style::None
                         : metrics::WorkProgress::style_of(options.text("progress"));
  metrics::WorkProgress progress(STDERR_FILENO, style, "tensors");
  CommandContext context{std::move(options), std::move(line), std::move(positional), progress, out};
  auto done = command.run(context);
  progress.end();
  return done;
}

Result<int> dispatch(const std::vector<std::string>& arguments, std::ostream& out) {
  const std::string name = arguments.empty() ? "" : arguments.front();
  constexpr std::string_view kHelpOf = "--help=";
  if (name == "--help" || name == "-h" || (name == "help" && arguments.size() == 1)) {
    return print_help(program_page(), "", out);
  }
  if (name.starts_with(kHelpOf)) {
    return print_help(program_page(), name.substr(kHelpOf.size()), out);
  }
  if (name == "--version") {
    out << kProgram << " " ROLLCALL_VERSION "\n";
    return to_int(ExitCode::Success);
  }
  if (name.empty()) {
    return fail("command line", "", "no command is given", fmt::format("{} --help", kProgram));
  }
  const bool asks_help = name == "help";
  const std::string& wanted = asks_help ? arguments[1] : name;
  const auto commands = all_commands();
  const auto command = std::ranges::find(commands, wanted, &Command::name);
  if (command == commands.end()) {
    return unknown_command(wanted);
  }
  if (asks_help) {
    return print_help(page_of(*command), "", out);
  }
  return run_command(*command, std::span(arguments).subspan(1), out);
}

}  // namespace

void print_json(std::ostream& out, std::string_view command, const Json& content) {
  Json whole{{"schema", "rollcall-checkpoint/1"}, {"command", command}};
  whole.update(content);
  out << whole.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
}

std::span<const Command> all_commands() {
  static const std::array commands{ls_command(),     show_command(),   verify_command(), diff_command(),
                                   export_command(), import_command(), merge_command(),  prune_command()};
  return commands;
}

int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) noexcept {
  return command_line::tool_main(kProgram, "running it on a node with more memory", out, err,
                                 [&] { return dispatch(arguments, out); });
}

}  // namespace rollcall::checkpoint_tool
