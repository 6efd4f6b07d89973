#include "runtime/doctor/observe/child.h"

#include <fmt/format.h>

#include "runtime/base/child_process.h"
#include "runtime/base/text.h"

namespace rollcall::doctor {
namespace {

Error failed(const std::string& program, const std::string& reason) {
  return fail("doctor", program, reason, "running it by hand on that node", ExitCode::Unavailable);
}

}  // namespace

Result<std::string> output_of(const std::vector<std::string>& arguments, std::chrono::duration<double> patience) {
  const Result<ChildOutput> output =
      run_and_capture(arguments, Environment::of_this_process(), {.patience = patience, .alone = true});
  if (!output) {
    return failed(arguments.front(), output.error().reason);
  }
  if (output->killed) {
    return failed(arguments.front(), fmt::format("does not end within {:g} s", patience.count()));
  }
  if (output->exit_code != 0) {
    const std::vector<std::string> lines = split(trim(output->text), '\n');
    return failed(arguments.front(), lines.empty() ? "fails" : "fails: " + lines.back());
  }
  return output->text;
}

}  // namespace rollcall::doctor
