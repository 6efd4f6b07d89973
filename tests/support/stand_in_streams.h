#pragma once

// The stand-in device's streams: what its other parts give them.

#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/stand_in_device.h"

namespace rollcall::testing_support::stand_in {

inline constexpr c10::DeviceIndex kMostDevices = 8;

/// STAND_IN_COUNT: as many, where it is a number; read once.
[[nodiscard]] c10::DeviceIndex device_count();

/// A device's default stream has its number.
[[nodiscard]] inline bool is_default(c10::StreamId stream) { return stream < kMostDevices; }

/// What the calling thread goes by: its device, and a stream of each device. As CUDA's, threads begin on the first one.
struct Current {
  c10::DeviceIndex device = 0;
  std::array<c10::StreamId, kMostDevices> streams{0, 1, 2, 3, 4, 5, 6, 7};

  [[nodiscard]] c10::StreamId& stream() { return streams.at(static_cast<std::size_t>(device)); }
};
extern thread_local Current current;

/// Something is made on that device; see contexts().
void make_context(c10::DeviceIndex device);

/// As CUDA's calls on events, which make the context of the calling thread's device, whatever device the event is of:
/// cudaEventQuery itself, the others as c10 sets the thread's device again (CUDAGuardImpl).
inline void make_context_of_thread() noexcept { make_context(current.device); }

/// What streams are given while it is under way: not done, but kept in order.
struct Capture {
  std::set<c10::StreamId> streams;  ///< the one that it began on, and those that waited for one of them
  std::set<c10::StreamId> open;     ///< which none of the others has waited for since
  std::vector<std::function<void()>> works;
  std::vector<std::shared_ptr<void>> held;  ///< what the graph holds as long as it lives
};

/// Work that streams were given and have not done. Backward passes have a thread of their own, hence the lock.
class Streams {
 public:
  /// A moment of a stream: after the first `count` things that it was given.
  struct Moment {
    c10::StreamId stream = 0;
    std::size_t count = 0;
    bool captured = false;
    int asked = 0;  ///< how often the host has asked whether it is reached
  };

  void give(c10::StreamId stream, std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (captures(stream)) {
      capture_->works.push_back(std::move(work));
      capture_->open.insert(stream);
      return;
    }
    make_context(device_of(stream));
    queues_[stream].given += 1;
    queues_[stream].waiting.push_back(std::move(work));
  }
  Moment now(c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    make_context(device_of(stream));
    return {stream, queues_[stream].given, captures(stream)};
  }
  void let_wait(c10::StreamId stream, Moment moment) {
    const std::lock_guard lock(mutex_);
    counts_.waits += 1;
    if (moment.captured) {
      TORCH_CHECK(capture_, "stand-in: a stream waits for an event of a capture that has ended");
      capture_->streams.insert(stream);
      capture_->open.erase(moment.stream);
      capture_->open.insert(stream);
      return;
    }
    TORCH_CHECK(!captures(stream), "stand-in: a captured stream waits for work that is not captured");
    give(stream, [this, moment] { reach(moment); });
  }
  void reach(Moment moment) {
    TORCH_CHECK(!moment.captured, "stand-in: the host waits for work that is captured");
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[moment.stream];
    while (queue.done < moment.count) {
      const std::function<void()> work = std::move(queue.waiting.front());
      queue.waiting.pop_front();
      queue.done += 1;
      work();
    }
  }
  /// Not while a stream does its work, which may take long.
  bool reached(Moment moment) {
    TORCH_CHECK(!moment.captured, "stand-in: the host looks at work that is captured");
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return lock.owns_lock() && queues_[moment.stream].done >= moment.count;
  }
  bool captures(c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    return capture_ && capture_->streams.contains(stream);
  }
  /// All that streams were given is done first.
  void begin_capture(c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, queue] : queues_) {
      reach({.stream = id, .count = queue.given});
    }
    TORCH_CHECK(!is_default(stream) && !capture_, "stand-in: the default stream cannot be captured, nor two at once");
    capture_.emplace(Capture{.streams = {stream}, .open = {stream}, .works = {}});
  }
  void hold_in_capture(std::shared_ptr<void> held) {
    const std::lock_guard lock(mutex_);
    capture_->held.push_back(std::move(held));
  }
  Capture end_capture(c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    Capture captured = *std::exchange(capture_, std::nullopt);
    captured.open.erase(stream);
    TORCH_CHECK(captured.open.empty(), "stand-in: a captured stream was not waited for");
    return captured;
  }
  c10::StreamId make(c10::DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    make_context(device);
    made_.push_back(device);
    return kMostDevices + static_cast<c10::StreamId>(made_.size()) - 1;
  }
  void count_copy() { counts_.late_copies += 1; }
  void count_host_wait() { counts_.host_waits += 1; }
  void count_host_wait_for_event() { counts_.host_waits_for_event += 1; }
  void count_replay() { counts_.replays += 1; }
  void count_event() { counts_.events += 1; }
  void count_copy_to_host() { counts_.copies_to_host += 1; }
  void count_reordered_copy() { counts_.reordered_copies += 1; }
  void count_cast() { counts_.casts += 1; }
  void count_search() { counts_.searches += 1; }
  [[nodiscard]] Counts counts() const { return counts_; }

 private:
  struct Queue {
    std::deque<std::function<void()>> waiting;
    std::size_t given = 0;
    std::size_t done = 0;
  };
  [[nodiscard]] c10::DeviceIndex device_of(c10::StreamId stream) const {
    return is_default(stream) ? static_cast<c10::DeviceIndex>(stream)
                              : made_.at(static_cast<std::size_t>(stream - kMostDevices));
  }

  std::recursive_mutex mutex_;
  std::map<c10::StreamId, Queue> queues_;
  std::vector<c10::DeviceIndex> made_;  ///< of each stream that is no default one: its device
  Counts counts_;
  std::optional<Capture> capture_;
};
[[nodiscard]] Streams& streams();

/// STAND_IN_STANDS_STILL: from which wait of the host on, of those for a step's numbers or a batch's copy, a device
/// goes on no more.
[[nodiscard]] bool stands_still();

/// While the current stream is captured there is nothing to be finished.
void finish_current();

/// The host waits for all that the current stream was given. STAND_IN_HOST_WAIT: for so many milliseconds.
void host_waits();

}  // namespace rollcall::testing_support::stand_in
