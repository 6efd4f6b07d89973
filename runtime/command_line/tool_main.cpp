#include "runtime/command_line/tool_main.h"

#include <exception>
#include <new>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/command_line/help.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::command_line {
namespace {

Result<int> done_and_written(std::ostream& out, const std::function<Result<int>()>& work) {
  Result<int> code = work();
  out.flush();
  if (code && !out) {
    return fail("standard output", "", "cannot be written", "redirecting it to another file", ErrorKind::InputOutput);
  }
  return code;
}

}  // namespace

int tool_main(std::string_view program, std::string_view for_less_memory, std::ostream& out, std::ostream& err,
              const std::function<Result<int>()>& work) noexcept {
  const auto told = [&err](const Error& error) {
    err << error.message() << std::endl;
    return to_int(error.exit_code());
  };
  try {
    const Result<int> code = done_and_written(out, work);
    return code ? *code : told(code.error());
  } catch (const std::bad_alloc&) {
    return told(fail(std::string(program), "", "there is not enough memory", std::string(for_less_memory),
                     ErrorKind::Unavailable));
  } catch (const std::exception& error) {
    return told(fail(std::string(program), "", error.what(), "reporting this: it is a bug", ErrorKind::Internal));
  }
}

Result<std::optional<ParsedCommandLine>> read_tools_command_line(const Tool& tool,
                                                                 std::span<settings::Settings* const> targets,
                                                                 std::span<const std::string> arguments,
                                                                 std::ostream& out) {
  HelpPage page{.name = std::string(tool.name),
                .text = std::string(tool.usage),
                .flags = {kHelp, kVersion},
                .closing = tool.closing};
  page.flags.insert(page.flags.end(), tool.flags.begin(), tool.flags.end());
  ASSIGN_OR_RETURN(ParsedCommandLine line, parse_command_line(targets, page.flags, arguments));
  if (line.has(kHelp.name)) {
    for (const settings::Settings* const settings : targets) {
      const bool is_launch = settings->table().data() == settings::launch_table().data();
      page.takes_launch_settings = page.takes_launch_settings || is_launch;
      page.tables.push_back(is_launch ? settings::Table() : settings->table());
    }
    ASSIGN_OR_RETURN(const std::string text, help_text(page, line.help_topic));
    out << text;
  } else if (line.has(kVersion.name)) {
    out << tool.name << " " << tool.version << "\n";
  } else {
    line.positional.insert(line.positional.end(), line.program.begin(), line.program.end());
    return std::optional(std::move(line));
  }
  return std::optional<ParsedCommandLine>();
}

}  // namespace rollcall::command_line
