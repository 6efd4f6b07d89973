#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <future>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/distributed/watchdog/watchdog.h"

namespace rollcall::process_group {

/// The connections of a device's backend. It makes sure that no thread checks them once another one closes them.
/// Threads that use the backend make `device` their current one: CUDA would make a context on the first device.
/// Thread-safe.
class DeviceConnections {
 public:
  /// `health_check` is null if the backend has none.
  DeviceConnections(c10::intrusive_ptr<c10d::Backend> backend, c10::Device device, HealthCheck health_check);

  /// Returns what is wrong, in the backend's own words; empty if nothing is known.
  [[nodiscard]] std::string find_problem();
  /// Begins to close the connections at once, with pending operations, on a thread of its own: NCCL's abort first
  /// releases what waits for the device, and then waits until no captured graph has a collective of these connections
  /// (commReclaim, NCCL's init.cc). Returns what becomes ready at its end.
  std::shared_future<void> begin_abort();
  /// Calls begin_abort() and waits for its end, at most deadline::kDeviceShutdown.
  void abort();
  /// Closes the connections in good order. All ranks do, and each waits for the others, for a limited time. A backend
  /// of c10d that is neither shut down nor aborted prints a warning and aborts.
  void shut_down();

 private:
  const c10::intrusive_ptr<c10d::Backend> backend_;
  const c10::Device device_;
  const HealthCheck health_check_;
  std::mutex mutex_;                  ///< guards the next two members
  bool over_ = false;                 ///< whether a thread closes or has closed them
  std::shared_future<void> aborted_;  ///< valid once begin_abort() was called
};

/// Returns whether an abort of this process has not ended. Threads of it would use the device while the process's
/// static objects are destroyed.
[[nodiscard]] bool aborts_are_under_way();

}  // namespace rollcall::process_group
