#include <iostream>

#include "runtime/cli/program.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return rollcall::cli::run_program(arguments, rollcall::Environment::of_this_process(), std::cout, std::cerr);
}
