#include <iostream>
#include <string_view>

#include "runtime/cli/program.h"
#include "runtime/contract/env_vars.h"

int main(int argc, char** argv) {
  const std::string_view name = argc > 0 ? argv[0] : "";
  if (name.substr(name.rfind('/') + 1) == rollcall::env::kTaskPrologName) {
    return rollcall::cli::run_task_prolog(rollcall::Environment::of_this_process());
  }
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return rollcall::cli::run_program(arguments, rollcall::with_home_and_user(rollcall::Environment::of_this_process()),
                                    std::cout, std::cerr);
}
