#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "runtime/base/thread_without_signals.h"

namespace rollcall {

/// Runs `work` on a new thread and returns its value, or nothing where it throws or takes longer than `longest`. Use it
/// for calls to a name server, file system or store that may hang. A late `work` continues in the detached thread (a
/// thread that waits in the kernel cannot be ended), so it must own all data that it uses.
template <typename Duration, typename Work>
[[nodiscard]] std::optional<std::invoke_result_t<Work>> run_with_timeout(Duration longest, Work work) {
  using Value = std::invoke_result_t<Work>;
  try {
    auto task = std::make_shared<std::packaged_task<Value()>>(std::move(work));
    std::future<Value> value = task->get_future();
    thread_without_signals([task] { (*task)(); }).detach();
    return value.wait_for(longest) == std::future_status::ready ? std::optional<Value>(value.get()) : std::nullopt;
  } catch (const std::exception&) {  // from `work`, or the thread could not be created
    return std::nullopt;
  }
}

/// A watchdog for work that may hang in a file system or a resolver. It has a thread of its own, because a signal does
/// not reach a process that waits for a file server. Where the object still exists when `patience` has passed,
/// `on_expiry` is called in that thread and must end the process (_exit).
///
/// The destructor ends the thread; it must run before the process executes another program. Where the thread cannot be
/// created, there is no time limit. The thread blocks all signals.
class TimeLimit {
 public:
  using Seconds = std::chrono::duration<double>;
  /// `doing` is the text of the last call of doing().
  using OnExpiry = std::function<void(const std::string& doing, Seconds patience)>;

  TimeLimit(Seconds patience, OnExpiry on_expiry);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  /// Changes the time limit, which is also counted from the construction.
  void set_patience(Seconds patience);
  /// Sets the description of the current work for the message: "looks up jwb0001i".
  void doing(std::string what);

 private:
  void watch();
  void wait_until_gone() const;

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const OnExpiry on_expiry_;
  std::mutex mutex_;  ///< guards the members below, except the thread
  std::condition_variable changed_;
  Seconds patience_;
  std::string doing_;
  bool over_ = false;
  int tid_ = 0;  ///< the kernel's id of the thread; 0 until it runs
  std::thread thread_;
};

}  // namespace rollcall
