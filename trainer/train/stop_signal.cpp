#include "trainer/train/stop_signal.h"

#include <unistd.h>

#include <csignal>

#include "runtime/contract/exit_codes.h"

namespace rollcall::train {
namespace {

volatile std::sig_atomic_t arrived = 0;
volatile std::sig_atomic_t training = 0;

void remember(int signal) {
  if (signal == SIGTERM && training == 0) {
    _exit(to_int(ExitCode::Ended));
  }
  if (signal == SIGINT && (training == 0 || arrived == SIGINT)) {
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

void training_begins() { training = 1; }

int stop_signal() { return arrived; }

}  // namespace rollcall::train
