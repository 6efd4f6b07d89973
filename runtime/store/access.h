#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "runtime/store/messages.h"

namespace rollcall::store {

/// How long an answer is waited for.
struct Patience {
  using Clock = std::chrono::steady_clock;

  Clock::time_point until = Clock::time_point::max();
  /// Whether to give up, looked at about ten times a second once it has not come at once. Empty: never.
  std::function<bool()> interrupted = {};
};

/// A process's way to the keys of its world. Thread-safe: any number of threads may wait for answers at once.
class Access {
 public:
  Access() = default;
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
  virtual ~Access() = default;

  /// Asks, and waits for the answer; a Set or an Append over a connection only until it is on its way: what this
  /// process asks afterwards finds it, and is itself refused ("of an earlier request: ...") where that was. A request
  /// that is longer than kLongestRequest is refused.
  [[nodiscard]] Answer ask(Request request, const Patience& patience = {});

 private:
  [[nodiscard]] virtual Answer carry_out(Request request, const Patience& patience) = 0;
};

/// Where a thread waits for its answer, under its Access's mutex.
struct Waiter {
  std::condition_variable changed;  ///< there is an answer, or something else for this thread to do
  std::optional<Answer> answer;
};

/// When a wait has to be looked at again, and whether it is over: pieces of a tenth of a second where somebody may
/// interrupt it, else of an hour, since before glibc 2.30 a condition variable reckons by the system's clock, whose
/// range the end of the steady one exceeds.
class WaitLimit {
 public:
  explicit WaitLimit(const Patience& patience) : patience_(patience), next_(later()) {}

  [[nodiscard]] Patience::Clock::time_point next() const { return next_; }
  /// To be asked after each wait.
  [[nodiscard]] bool over();

 private:
  [[nodiscard]] Patience::Clock::time_point later() const;

  const Patience& patience_;
  Patience::Clock::time_point next_;
};

}  // namespace rollcall::store
