#include "trainer/train/stop_signal.h"

#include <csignal>

namespace rollcall::train {
namespace {

volatile std::sig_atomic_t arrived = 0;

void remember(int signal) {
  if (signal == SIGINT && arrived == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  arrived = signal;
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    sigaction(signal, &action, nullptr);
  }
}

int stop_signal() { return arrived; }

}  // namespace rollcall::train
