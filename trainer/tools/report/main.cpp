#include <iostream>

#include "trainer/tools/report/program.h"

int main(int argc, char** argv) {
  return rollcall::report_tool::run(std::vector<std::string>(argv + 1, argv + argc), std::cout, std::cerr);
}
