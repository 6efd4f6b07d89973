#include "trainer/tools/pack/stop_request.h"

#include <csignal>

namespace rollcall::pack {
namespace {

volatile std::sig_atomic_t requested = 0;

void remember(int signal) {
  if (signal == SIGINT && requested != 0) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  requested = 1;
}

}  // namespace

void catch_stop_requests() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() { return requested != 0; }

}  // namespace rollcall::pack
