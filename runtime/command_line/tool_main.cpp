#include "runtime/command_line/tool_main.h"

#include <exception>
#include <new>
#include <ostream>
#include <string>

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

}  // namespace rollcall::command_line
