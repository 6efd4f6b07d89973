#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
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

}  // namespace rollcall::process_group
