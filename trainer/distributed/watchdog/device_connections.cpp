#include "trainer/distributed/watchdog/device_connections.h"

#include <c10/core/DeviceGuard.h>

#include <atomic>
#include <exception>
#include <functional>
#include <utility>

#include "runtime/base/thread_without_signals.h"
#include "runtime/base/time_limit.h"
#include "runtime/contract/deadlines.h"

namespace rollcall::process_group {

namespace {

std::atomic<int> unfinished_aborts = 0;

void ignore_failure(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception&) {
  }
}

}  // namespace

bool aborts_are_under_way() { return unfinished_aborts > 0; }

DeviceConnections::DeviceConnections(c10::intrusive_ptr<c10d::Backend> backend, c10::Device device,
                                     HealthCheck health_check)
    : backend_(std::move(backend)), device_(device), health_check_(health_check) {}

std::string DeviceConnections::find_problem() {
  const std::lock_guard lock(mutex_);
  if (over_ || health_check_ == nullptr) {
    return "";
  }
  try {
    const c10::DeviceGuard guard(device_);
    return health_check_(*backend_);
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::shared_future<void> DeviceConnections::begin_abort() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  if (!aborted_.valid()) {
    std::packaged_task<void()> task([backend = backend_, device = device_] {
      c10::OptionalDeviceGuard guard;
      // Both throw the device's error, which is the reason for this call.
      ignore_failure([&] { guard.reset_device(device); });
      ignore_failure([&] { backend->abort(); });
      unfinished_aborts -= 1;
    });
    aborted_ = task.get_future().share();
    unfinished_aborts += 1;
    ignore_failure(
        [&] { thread_without_signals(std::move(task)).detach(); });  // no thread: the process's end closes them
  }
  return aborted_;
}

void DeviceConnections::abort() { begin_abort().wait_for(deadline::kDeviceShutdown); }

void DeviceConnections::shut_down() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(over_, true)) {
      return;
    }
  }
  (void)run_with_timeout(deadline::kDeviceShutdown, [backend = backend_, device = device_] {
    const c10::DeviceGuard guard(device);
    backend->shutdown();
    return true;
  });
}

}  // namespace rollcall::process_group
