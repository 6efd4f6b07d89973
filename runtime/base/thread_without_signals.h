#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace rollcall {

/// Starts a thread that runs `work` with all signals blocked. The kernel delivers a signal to any thread that does not
/// block it: in this thread SIGCHLD would bypass another thread's signalfd(2), and SIGTERM would end the process.
/// Throws std::system_error where the system cannot create a thread.
template <typename Work>
[[nodiscard]] std::thread thread_without_signals(Work work) {
  struct Blocked {
    sigset_t before{};
    Blocked() {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread inherits the mask
    }
    ~Blocked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;
  };
  const Blocked blocked;
  return std::thread(std::move(work));
}

}  // namespace rollcall
