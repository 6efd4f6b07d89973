#include "runtime/command_line/tool_main.h"

#include <exception>
#include <new>
#include <ostream>
#include <string>
#include <vector>

namespace rollcall::command_line {
namespace {

Result<int> done_and_written(std::ostream& out, const std::function<Result<int>()>& work) {
  Result<int> code = work();
  out.flush();
  if (code && !out) {
    return fail("standard output", "", "cannot be written", "another place for it", ErrorKind::InputOutput);
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
  std::vector<Flag> flags{{"help", 'h', "show this text"}, {"version", 0, "show the version"}};
  flags.insert(flags.end(), tool.flags.begin(), tool.flags.end());
  ASSIGN_OR_RETURN(ParsedCommandLine line, parse_command_line(targets, flags, arguments));
  if (line.has("help")) {
    std::vector<settings::Table> tables;
    for (const settings::Settings* const settings : targets) {
      tables.push_back(settings->table());
    }
    out << tool.usage << "\n" << help_text(flags, tables) << tool.closing;
  } else if (line.has("version")) {
    out << tool.name << " " << tool.version << "\n";
  } else {
    line.positional.insert(line.positional.end(), line.program.begin(), line.program.end());
    return std::optional(std::move(line));
  }
  return std::optional<ParsedCommandLine>();
}

}  // namespace rollcall::command_line
