#pragma once

#include <sys/signalfd.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/rendezvous/connect.h"

namespace rollcall::rendezvous {

/// Waits for descriptors and signals in one thread (epoll(7)). Handled signals stay blocked in this thread, and in
/// threads that it starts, for the lifetime of the loop.
class EventLoop {
 public:
  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  ~EventLoop();

  using Ready = std::function<void()>;
  /// Calls `ready` from wait() while `descriptor` is readable or has an error.
  void watch(int descriptor, Ready ready);
  /// Sets whether `ready` is also called while `descriptor` is writable.
  void watch_writing(int descriptor, bool on);
  /// Stops watching; the caller closes the descriptor afterwards. May be called from a `ready`.
  void forget(int descriptor);

  /// Handles these signals from now on: wait() returns them.
  void handle_signals(const std::vector<int>& signals);

  /// Returns why the loop cannot wait for everything that it should; empty: no problem.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// Waits until something happens, at most until `until`, and calls the ready functions. Returns the signals received.
  std::vector<int> wait(std::optional<Clock::time_point> until);

 private:
  int epoll_ = -1;
  int signals_ = -1;
  std::map<int, Ready> ready_;
  sigset_t before_{};
  std::string problem_;
};

}  // namespace rollcall::rendezvous
