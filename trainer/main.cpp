#include "trainer/train/run.h"

int main(int argc, char** argv) {
  return rollcall::train::run(rollcall::Environment::of_this_process(),
                              std::vector<std::string>(argv + 1, argv + argc));
}
