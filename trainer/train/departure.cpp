#include "trainer/train/departure.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "runtime/contract/exit_codes.h"

namespace rollcall::train {
namespace {

constexpr const char* kLeft = "rollcall/left";

void wait_for_others(const World& world) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (world.store->add(kLeft, 0) + 1 < world.world_size && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

void let_others_leave_first(World& world) {
  if (!world.store) {
    return;
  }
  try {
    if (world.rank == 0) {
      wait_for_others(world);
      return;
    }
    world.process_group.reset();  // says that it leaves in good order
    world.store->add(kLeft, 1);
  } catch (const std::exception&) {
    // The store went with rank 0, which gave up waiting: there is nothing left to order.
  }
}

void leave_interrupted(World& world) {
  let_others_leave_first(world);
  if (world.rank != 0) {
    std::fflush(nullptr);
    std::_Exit(to_int(ExitCode::Success));
  }
}

}  // namespace rollcall::train
