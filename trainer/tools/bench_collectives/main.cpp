#include "trainer/tools/bench_collectives/program.h"

int main(int argc, char** argv) {
  return rollcall::bench_collectives::run(rollcall::Environment::of_this_process(),
                                          std::vector<std::string>(argv + 1, argv + argc));
}
