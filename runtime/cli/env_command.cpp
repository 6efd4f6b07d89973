#include "runtime/cli/env_command.h"

#include "runtime/cli/command.h"
#include "runtime/cli/env_report.h"
#include "runtime/rendezvous/resolved_step.h"

namespace rollcall::cli {

Result<void> run_env(CommandContext& context) {
  const command_line::ParsedCommandLine& line = context.line;
  if (!line.positional.empty() || !line.program.empty()) {
    const std::string& extra = line.positional.empty() ? line.program.front() : line.positional.front();
    return fail("env", extra, "is one argument too many", "rollcall exec -- PROGRAM to run a program");
  }
  const Result<rendezvous::ResolvedStep> step =
      rendezvous::resolve_this_step(context.environment, context.settings, nullptr);
  if (!step) {
    return step.error();
  }
  if (line.has("json")) {
    context.out << env_json(*step, context.settings);
    return {};
  }
  if (line.has("export")) {
    context.out << env_exports(step->patch);
    context.err << warning_lines(step->patch);
    return {};
  }
  context.out << env_table(step->patch) << '\n' << settings::site_text(context.settings);
  if (line.has("verbose")) {
    context.out << '\n' << facts_text(*step);
  }
  context.err << warning_lines(step->patch);
  return {};
}

}  // namespace rollcall::cli
