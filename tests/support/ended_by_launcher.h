#pragma once

#include <unistd.h>
#include <atomic>
#include <csignal>
#include <thread>

namespace rollcall {

/// Sends this process SIGTERM as soon as it catches or ignores it, as Slurm does once another task has ended: a task
/// that waits for the report of another one goes on at once.
class EndedByLauncher {
 public:
  EndedByLauncher() {
    std::signal(SIGTERM, SIG_DFL);
    thread_ = std::thread([this] {
      struct sigaction now {};
      while (!stopped_ && now.sa_handler == SIG_DFL) {
        ::sigaction(SIGTERM, nullptr, &now);
        std::this_thread::yield();
      }
      if (now.sa_handler != SIG_DFL) {
        sent_ = true;
        ::kill(::getpid(), SIGTERM);
      }
    });
  }
  ~EndedByLauncher() {
    stopped_ = true;
    thread_.join();
    std::signal(SIGTERM, SIG_DFL);
  }
  EndedByLauncher(const EndedByLauncher&) = delete;
  EndedByLauncher& operator=(const EndedByLauncher&) = delete;

  /// Whether the process waited for it. Call it once the process would have ended.
  [[nodiscard]] bool sent() const { return sent_; }

 private:
  std::atomic<bool> stopped_{false};
  std::atomic<bool> sent_{false};
  std::thread thread_;
};

}  // namespace rollcall
