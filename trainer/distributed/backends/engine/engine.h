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

/// A collective of a group, and who is told of its end.
struct Operation {
  std::string name;  ///< "ucx: all_reduce of 1048576 bytes"; for error messages
  std::chrono::milliseconds timeout{0};
  Collective collective;
  bool awaited = false;  ///< whether the submitting thread calls Engine::help_until() next, and begins it

  /// Called once when the operation has ended, on the engine's thread or one that helps it. `failure` is empty after
  /// success. Must not throw, wait for another operation or destroy the engine.
  std::function<void(const std::string& failure)> done;
};

/// Runs a group's operations on a thread of its own, so that they progress while the caller computes. They are
/// submitted in the same order on all ranks.
///
/// The first failure, a lost peer or a timeout, ends the group: all pending and all later operations fail with it.
/// Thread-safe, except for the destructor.
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  /// Fails all pending operations and ends the group. Not on the engine's own thread. Nothing may be submitted
  /// afterwards; threads in help_until() return.
  virtual void shutdown() = 0;

  virtual void submit(Operation operation) = 0;
  /// Runs the group's operations on the calling thread until `done`, or for a shorter time: for threads that would
  /// otherwise wait and leave a core idle.
  virtual void help_until(const std::function<bool()>& done) = 0;
  /// Fails all pending and later operations with `reason`.
  virtual void abort(const std::string& reason) = 0;
  [[nodiscard]] virtual bool has_failed() const = 0;
};

/// Sends `mine`, bytes, to all ranks and returns those of all ranks, by rank: an out-of-band all-gather with which
/// engines connect. Collective.
using BootstrapAllGather = std::function<Result<std::vector<std::string>>(const std::string& mine)>;

/// A queue of requests to an engine's thread. Thread-safe.
class Submissions {
 public:
  void submit(Operation operation);
  /// Asks the engine to fail all operations with `reason`.
  void abort(const std::string& reason);
  /// Asks the engine to end.
  void stop();

  /// Returns the operations submitted since the last call, in order.
  [[nodiscard]] std::vector<Operation> take();
  /// Returns the reason of an abort() since the last call; unset if there was none.
  [[nodiscard]] std::optional<std::string> take_abort();
  [[nodiscard]] bool is_stopped() const;

  /// Blocks until there is a request, for at most `longest` if that is set.
  void wait(std::optional<std::chrono::microseconds> longest);

 private:
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::vector<Operation> operations_;  ///< guarded by mutex_, like the rest
  std::optional<std::string> abort_reason_;
  bool stopped_ = false;
};

/// Calls `operation.done` with `failure`, prefixed by the operation's name and its number in the group; or with an
/// empty text if `failure` is empty.
void report_end(const Operation& operation, std::uint64_t number, const std::string& failure);

}  // namespace rollcall::process_group
