#include <iostream>

#include "trainer/tools/top/program.h"

int main(int argc, char** argv) {
  return rollcall::top::run(std::vector<std::string>(argv + 1, argv + argc), rollcall::Environment::of_this_process(),
                            std::cout, std::cerr);
}
