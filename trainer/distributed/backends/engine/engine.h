#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/algorithms/collective.h"

namespace rollcall::process_group {

/// A message outside of collectives.
struct PointToPoint {
  bool sends = false;
  std::optional<std::uint32_t> peer;  ///< nothing: received from anybody
  std::uint32_t tag = 0;
  std::byte* data = nullptr;  ///< only read where it sends
  std::size_t bytes = 0;
};

/// Something a group is asked to do.
struct Operation {
  std::string name;  ///< "ucx: all_reduce of 1048576 bytes"; for error messages
  std::chrono::milliseconds timeout{0};
  Collective collective;
  std::optional<PointToPoint> message;  ///< instead of a collective
  bool awaited = false;                 ///< the submitting thread calls Engine::help_until() next, so it can begin then

  /// Called once, on the engine's thread or one that helps it: how it ended. Empty: well. `source` is the sender where
  /// the message was received from anybody. Must not throw, wait for another operation nor destroy the engine.
  std::function<void(const std::string& failure, std::uint32_t source)> done;
};

/// What carries out a group's operations, on a thread of its own, so that they go on while the caller computes.
/// Collectives are called in the same order on all ranks; messages run beside them.
///
/// The first failure, a lost peer or a passed timeout, ends the group: everything pending and all that is submitted
/// later fails with it. Thread-safe, but for the destructor.
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  /// What is pending fails, and the group ends. Not on the engine's own thread. Nothing may be submitted afterwards;
  /// threads in help_until() return.
  virtual void shutdown() = 0;

  virtual void submit(Operation operation) = 0;
  /// Sees to the group's operations in the calling thread until `done`, or less long: for threads that would otherwise
  /// wait, and so leave a core idle.
  virtual void help_until(const std::function<bool()>& done) = 0;
  /// Everything pending and later fails, naming `reason`.
  virtual void abort(const std::string& reason) = 0;
  [[nodiscard]] virtual bool has_failed() const = 0;
};

/// Gives all ranks `mine` and returns everybody's by rank; bytes. Collective. What engines find their peers with.
using Exchange = std::function<Result<std::vector<std::string>>(const std::string& mine)>;

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
