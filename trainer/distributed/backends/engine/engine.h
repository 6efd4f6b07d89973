#pragma once

#include <functional>
#include <string>

#include "trainer/distributed/backends/engine/operation.h"

namespace rollcall::process_group {

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
  virtual void close() = 0;

  virtual void submit(Operation operation) = 0;
  /// Sees to the group's operations in the calling thread until `done`, or less long: for threads that would otherwise
  /// wait, and so leave a core idle.
  virtual void help_until(const std::function<bool()>& done) = 0;
  /// Everything pending and later fails, naming `reason`.
  virtual void abort(const std::string& reason) = 0;
  [[nodiscard]] virtual bool has_failed() const = 0;
};

}  // namespace rollcall::process_group
