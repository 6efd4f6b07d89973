#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trainer/distributed/backends/engine/engine.h"

namespace rollcall::process_group {

/// What callers ask of an engine, on its way to the thread that does it. Thread-safe.
class Submissions {
 public:
  void submit(Operation operation);
  /// Everything is to fail, naming `reason`.
  void abort(const std::string& reason);
  /// The engine is to end.
  void stop();

  /// What was submitted since it was asked last, in that order.
  [[nodiscard]] std::vector<Operation> take();
  /// Why everything is to fail, where abort() was called since it was asked last.
  [[nodiscard]] std::optional<std::string> take_abort();
  [[nodiscard]] bool is_stopped() const;

  /// Blocks until there is something to take or the engine is to end; at most `longest`, where that is given.
  void wait(std::optional<std::chrono::microseconds> longest);

 private:
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::vector<Operation> operations_;  ///< guarded by mutex_, like the rest
  std::optional<std::string> abort_reason_;
  bool stopped_ = false;
};

/// Tells whoever asked for `operation` how it ended: `failure` empty, or why it failed, after the operation's name and,
/// of a collective, its number in the group. `source` as Operation::done has it.
void report_end(const Operation& operation, std::uint64_t number, const std::string& failure, std::uint32_t source);

}  // namespace rollcall::process_group
