#include "runtime/job/own_environment.h"
#include "trainer/metrics/startup_trace.h"
#include "trainer/train/run.h"

namespace {

rollcall::metrics::Moment g_linked;

void note_linked() noexcept { g_linked = rollcall::metrics::now(); }

// The dynamic linker calls it after all libraries are relocated and before any of their constructors runs.
[[gnu::section(".preinit_array"), gnu::used]] void (*const g_note_linked)() noexcept = note_linked;

}  // namespace

int main(int argc, char** argv) {
  const rollcall::Environment environment = rollcall::job::own_environment(rollcall::Environment::of_this_process());
  return rollcall::train::run(rollcall::with_home_and_user(environment),
                              std::vector<std::string>(argv + 1, argv + argc),
                              rollcall::metrics::StartupTrace(g_linked));
}
