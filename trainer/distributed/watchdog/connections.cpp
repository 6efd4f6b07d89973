#include "trainer/distributed/watchdog/connections.h"

#include <chrono>
#include <exception>
#include <utility>

#include "runtime/base/time_limit.h"

namespace rollcall::process_group {

std::string Connections::trouble() {
  const std::lock_guard lock(mutex_);
  if (over_ || trouble_ == nullptr) {
    return "";
  }
  try {
    return trouble_(*backend_);
  } catch (const std::exception& error) {
    return error.what();
  }
}

void Connections::abort() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  try {
    backend_->abort();
  } catch (const std::exception&) {  // NCCL's passes on what the device says, which is why this is called
  }
}

void Connections::shut_down() {
  constexpr std::chrono::seconds kLongest{5};
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(over_, true)) {
      return;
    }
  }
  (void)run_within(kLongest, [backend = backend_] {
    backend->shutdown();
    return true;
  });
}

}  // namespace rollcall::process_group
