#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

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

}  // namespace rollcall::process_group
