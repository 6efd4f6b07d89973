#include <iostream>

#include "trainer/tools/checkpoint/program.h"

int main(int argc, char** argv) {
  return rollcall::checkpoint_tool::run(std::vector<std::string>(argv + 1, argv + argc), std::cout, std::cerr);
}
