#pragma once

#include <sys/signalfd.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/rendezvous/connect.h"

namespace rollcall::rendezvous {

/// Waits for descriptors and signals, in one thread (epoll(7)). Signals that are handled stay blocked in this thread
/// and those that it starts, for as long as the loop lives.
class EventLoop {
 public:
  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  ~EventLoop();

  using Ready = std::function<void()>;
  /// Calls `ready` from wait() while something can be read from `descriptor`, or it has an error.
  void watch(int descriptor, Ready ready);
  /// Whether it is to be called too while something can be written.
  void watch_writing(int descriptor, bool on);
  /// The caller closes it afterwards. May be called from a `ready`.
  void forget(int descriptor);

  /// Handles these signals from now on: wait() returns them.
  void handle_signals(const std::vector<int>& signals);

  /// Why it cannot wait for all that it should; empty: all is well.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// Waits until something happens, `until` at the latest, and calls what is due. Returns the signals that came.
  std::vector<int> wait(std::optional<Clock::time_point> until);

 private:
  int epoll_ = -1;
  int signals_ = -1;
  std::map<int, Ready> ready_;
  sigset_t before_{};
  std::string problem_;
};

}  // namespace rollcall::rendezvous
