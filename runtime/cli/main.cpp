#include <iostream>
#include <string_view>

#include "runtime/cli/program.h"
#include "runtime/contract/env_vars.h"
#include "runtime/contract/hook_wire.h"
#include "runtime/hooks/serve.h"
#include "runtime/job/own_environment.h"

int main(int argc, char** argv) {
  const std::string_view name = argc > 0 ? argv[0] : "";
  if (argc == 3 && argv[1] == std::string_view(rollcall::hook::kCommand)) {
    return rollcall::hooks::serve_plugin(argv[2]);
  }
  // --help and --version do not look at the job.
  const std::string_view only = argc == 2 ? argv[1] : "";
  rollcall::Environment environment = rollcall::Environment::of_this_process();
  if (only != "--help" && only != "--version") {
    environment = rollcall::job::own_environment(environment);
  }
  if (name.substr(name.rfind('/') + 1) == rollcall::env::kTaskPrologName) {
    return rollcall::cli::run_task_prolog(environment);
  }
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  // Workers of `rollcall run` get only what torchrun would give them.
  const bool is_run = !arguments.empty() && arguments.front() == "run";
  for (const std::string& each : is_run ? rollcall::job::emptied_variables(environment) : std::vector<std::string>()) {
    environment.unset(each);
  }
  return rollcall::cli::run_program(arguments, is_run ? environment : rollcall::with_home_and_user(environment),
                                    std::cout, std::cerr);
}
