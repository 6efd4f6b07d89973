#include <cstdio>
#include <cstdlib>

#include "trainer/metrics/startup_trace.h"
#include "trainer/train/run.h"

namespace {

rollcall::metrics::Moment g_linked;

void note_linked() noexcept { g_linked = rollcall::metrics::now(); }

// Called by the dynamic linker when all libraries are relocated and none of their constructors has run.
[[gnu::section(".preinit_array"), gnu::used]] void (*const g_note_linked)() noexcept = note_linked;

/// The last of what is registered with on_exit(3): what comes behind it are the destructors of the libraries that the
/// program is linked with. LibTorch takes its operators' table apart there, which is a tenth of a second of a core.
void end_at_once(int status, void* /*unused*/) {
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace

int main(int argc, char** argv) {
  on_exit(&end_at_once, nullptr);  // first of all that is registered here, hence last
  return rollcall::train::run(rollcall::Environment::of_this_process(), std::vector<std::string>(argv + 1, argv + argc),
                              rollcall::metrics::StartupTrace(g_linked));
}
