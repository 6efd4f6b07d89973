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

/// Runs `work` on a thread of its own and returns its value, or nothing where it throws or takes longer than `longest`:
/// for questions to a name server, a file system or a store that may hang, and would hold up who asks for ever. `work`
/// then goes on in the thread, which is left behind (nothing can end a thread that waits inside the kernel), so it owns
/// all that it touches.
template <typename Duration, typename Work>
[[nodiscard]] std::optional<std::invoke_result_t<Work>> run_within(Duration longest, Work work) {
  using Value = std::invoke_result_t<Work>;
  try {
    auto task = std::make_shared<std::packaged_task<Value()>>(std::move(work));
    std::future<Value> value = task->get_future();
    thread_without_signals([task] { (*task)(); }).detach();
    return value.wait_for(longest) == std::future_status::ready ? std::optional<Value>(value.get()) : std::nullopt;
  } catch (const std::exception&) {  // of `work`, or no memory for another thread
    return std::nullopt;
  }
}

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
