#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace rollcall {

/// Watches over work that may hang in a file system or a resolver, from a thread of its own: a signal would not reach
/// a process that waits for a file server. Where the work is not over in time, `on_expiry` is called in that thread,
/// and is to end the process (_exit).
///
/// For a process that is about to become another program: its destructor, which ends the thread, runs before. Where the
/// thread cannot be started the work goes on unwatched. The thread takes no signals.
class TimeLimit {
 public:
  using Seconds = std::chrono::duration<double>;
  /// `doing` is what was announced last.
  using OnExpiry = std::function<void(const std::string& doing, Seconds patience)>;

  TimeLimit(Seconds patience, OnExpiry on_expiry);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  /// Another patience, counted from the beginning as well.
  void set_patience(Seconds patience);
  /// What the work does from now on, for the message: "looks up jwb0001i".
  void doing(std::string what);

 private:
  void watch();
  void wait_until_gone() const;

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const OnExpiry on_expiry_;
  std::mutex mutex_;  ///< guards what follows, up to the thread
  std::condition_variable changed_;
  Seconds patience_;
  std::string doing_;
  bool over_ = false;
  int tid_ = 0;  ///< the thread's, to the kernel; final when it has ended
  std::thread thread_;
};

}  // namespace rollcall
