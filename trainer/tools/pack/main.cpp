#include <iostream>

#include "trainer/tools/pack/program.h"

int main(int argc, char** argv) {
  return rollcall::pack::run(std::vector<std::string>(argv + 1, argv + argc),
                             rollcall::with_home_and_user(rollcall::Environment::of_this_process()), std::cout,
                             std::cerr);
}
