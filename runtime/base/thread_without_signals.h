#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace rollcall {

/// A thread that runs `work` with all signals blocked. The kernel gives a signal to any thread of the process that does
/// not block it: in this one SIGCHLD would be lost to the signalfd(2) of another, and SIGTERM end the process. Throws
/// std::system_error where the system has no further thread.
template <typename Work>
[[nodiscard]] std::thread thread_without_signals(Work work) {
  struct Blocked {
    sigset_t before{};
    Blocked() {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);  // which the thread inherits
    }
    ~Blocked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;
  };
  const Blocked blocked;
  return std::thread(std::move(work));
}

}  // namespace rollcall
