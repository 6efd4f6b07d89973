#include "tests/support/stand_in_streams.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/support/stand_in_memory.h"

namespace rollcall::testing_support::stand_in {
namespace {

std::array<std::atomic<bool>, kMostDevices> have_context;

}  // namespace

c10::DeviceIndex device_count() {
  static const c10::DeviceIndex count = [] {
    const char* const given = std::getenv("STAND_IN_COUNT");
    return static_cast<c10::DeviceIndex>(std::clamp<int>(given == nullptr ? 1 : std::atoi(given), 1, kMostDevices));
  }();
  return count;
}

void make_context(c10::DeviceIndex device) { have_context.at(static_cast<std::size_t>(device)) = true; }

std::vector<c10::DeviceIndex> contexts() {
  std::vector<c10::DeviceIndex> found;
  for (c10::DeviceIndex device = 0; device < kMostDevices; ++device) {
    if (have_context.at(static_cast<std::size_t>(device))) {
      found.push_back(device);
    }
  }
  return found;
}

Streams& streams() {
  static Streams all;
  return all;
}

thread_local Current current;

void finish_current() {
  if (!is_captured()) {
    streams().reach(streams().now(current.stream()));
  }
}

void host_waits() {
  TORCH_CHECK(!is_captured(), "stand-in: the host waits for a stream that is captured");
  streams().count_host_wait();
  static const char* const milliseconds = std::getenv("STAND_IN_HOST_WAIT");
  if (milliseconds != nullptr) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoll(milliseconds)));
  }
}

Counts counts() {
  Counts counts = streams().counts();
  const PageLocks locks = page_locks();
  counts.page_locks = locks.times;
  counts.page_locked_bytes = locks.bytes;
  counts.page_locked_by_main = locks.bytes_by_main;
  return counts;
}

std::function<void()> capture(const std::function<void()>& work) {
  streams().begin_capture(current.stream());
  try {
    work();
  } catch (...) {
    try {
      streams().end_capture(current.stream());
    } catch (const c10::Error&) {
      // What went wrong first is what is told.
    }
    throw;
  }
  Capture graph = streams().end_capture(current.stream());
  const auto all = std::make_shared<const std::vector<std::function<void()>>>(std::move(graph.works));
  return [all, held = std::move(graph.held)] {
    streams().count_replay();
    streams().give(current.stream(), [all] {
      for (const std::function<void()>& captured : *all) {
        captured();
      }
    });
  };
}

bool is_captured() { return streams().captures(current.stream()); }

void enqueue(std::function<void()> work) { streams().give(current.stream(), std::move(work)); }

}  // namespace rollcall::testing_support::stand_in
