#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "runtime/store/messages.h"

namespace rollcall::store {

/// How long to wait for an answer.
struct Patience {
  using Clock = std::chrono::steady_clock;

  Clock::time_point until = Clock::time_point::max();
  /// Returns whether to give up; called about ten times a second while the answer is missing. Empty: never.
  std::function<bool()> interrupted = {};
};

/// Access to the keys of this process's world. Thread-safe: any number of threads may wait for answers at once.
class Access {
 public:
  Access() = default;
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
  virtual ~Access() = default;

  /// Sends a request and waits for the answer; a Set or an Append over a connection waits only until it is being sent.
  /// Later requests of this process see its effect, and one of them is refused ("of an earlier request: ...") where it
  /// was refused. A request longer than kLongestRequest is refused.
  [[nodiscard]] Answer ask(Request request, const Patience& patience = {});

 private:
  [[nodiscard]] virtual Answer carry_out(Request request, const Patience& patience) = 0;
};

/// A thread that waits for its answer, protected by the mutex of its Access.
struct Waiter {
  std::condition_variable changed;  ///< signalled when the answer is present or the thread has other work
  std::optional<Answer> answer;
};

/// Decides when a waiting thread wakes up next and whether it gives up: every 0.1 s where it can be interrupted,
/// otherwise every hour. Before glibc 2.30 a condition variable uses the system clock, whose range the maximum of the
/// steady clock exceeds.
class WaitLimit {
 public:
  explicit WaitLimit(const Patience& patience) : patience_(patience), next_(later()) {}

  [[nodiscard]] Patience::Clock::time_point next() const { return next_; }
  /// Returns whether to give up; to be called after each wait.
  [[nodiscard]] bool over();

 private:
  [[nodiscard]] Patience::Clock::time_point later() const;

  const Patience& patience_;
  Patience::Clock::time_point next_;
};

}  // namespace rollcall::store
