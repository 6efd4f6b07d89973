#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace rollcall::checkpoint::background {

/// A thread that does one thing at a time. start() and wait() are for one thread, busy() for any.
class Worker {
 public:
  Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Waits for what was started.
  ~Worker();

  /// Not while busy. `work` must not throw.
  void start(std::function<void()> work);
  void wait();
  [[nodiscard]] bool busy() const;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  ///< empty: nothing to do
  bool ending_ = false;
  std::thread thread_;  ///< last: it uses what is above
};

}  // namespace rollcall::checkpoint::background
