#include "runtime/cli/command.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "runtime/base/child_process.h"
#include "runtime/cli/env_command.h"
#include "runtime/job/own_environment.h"
#include "runtime/rendezvous/exec_step.h"
#include "runtime/storage/folders.h"

namespace rollcall::cli {

int become_program(const std::vector<std::string>& program) {
  const std::vector<char*> arguments = pointers_to(program);
  execvp(arguments.front(), arguments.data());
  return errno;
}

Result<void> run_exec(CommandContext& context) {
  const std::vector<std::string>& program = context.line.program;
  if (program.empty() || program.front().empty()) {
    return fail("exec", "", "no program is given", "rollcall exec -- PROGRAM ARGUMENTS");
  }
  const Environment environment = job::with_slurmctld_facts(context.environment);
  ASSIGN_OR_RETURN(step::ResolvedStep step, rendezvous::resolve_for_exec(environment, context.settings));
  RETURN_IF_ERROR(step::check_head_is_known(step.facts, step.patch));
  RETURN_IF_ERROR(storage::prepare_folders(step.facts, step.patch, context.settings, environment));
  context.err << warning_lines(step::warnings_to_report(step.facts, step.patch));
  context.out.flush();
  context.err.flush();
  // execvp looks the program up in the new PATH, which may have a virtual environment.
  step::apply_to_this_process(step.patch);
  const int error_number = become_program(program);
  const bool absent = error_number == ENOENT;
  return fail("exec", program.front(), errno_text(error_number),
              absent ? "giving the full path of the program" : "checking that the file can be executed",
              absent ? ErrorKind::NotFound : ErrorKind::NotExecutable);
}

}  // namespace rollcall::cli
