#include "trainer/distributed/watchdog/device_collectives.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "trainer/distributed/errors/exceptions.h"

namespace rollcall::process_group {
namespace {

/// Ends it for what `pointer` says.
void fail(WatchedCollective& collective, const std::exception_ptr& pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const std::exception& error) {
    if (const std::optional<Error> own = failure_of_device(error)) {
      collective.fail_by_itself(*own);
    } else {
      collective.fail(error.what());
    }
  } catch (...) {
    collective.fail("an unknown error");
  }
}

/// Nothing: it cannot be looked at, which is told as its end.
std::optional<bool> is_completed(c10d::Work& work, WatchedCollective& collective) {
  try {
    return work.isCompleted();
  } catch (...) {
    fail(collective, std::current_exception());
    return std::nullopt;
  }
}

}  // namespace

void DeviceCollectives::add(c10::intrusive_ptr<c10d::Work> work, std::shared_ptr<WatchedCollective> collective,
                            Trouble trouble, std::chrono::milliseconds own) {
  const std::lock_guard lock(mutex_);
  under_way_.push_back({std::move(work), std::move(collective), std::move(trouble), own});
}

void DeviceCollectives::forget() {
  const std::lock_guard lock(mutex_);
  under_way_.clear();
}

std::optional<DeviceCollectives::UnderWay> DeviceCollectives::first() {
  const std::lock_guard lock(mutex_);
  return under_way_.empty() ? std::nullopt : std::optional(under_way_.front());
}

void DeviceCollectives::drop_first() {
  const std::lock_guard lock(mutex_);
  if (!under_way_.empty()) {  // forgotten meanwhile
    under_way_.pop_front();
  }
}

void DeviceCollectives::look(WatchedCollective::Clock::time_point now) {
  while (const std::optional<UnderWay> next = first()) {
    WatchedCollective& collective = *next->collective;
    const std::optional<bool> completed = is_completed(*next->work, collective);
    if (!completed) {
      forget();
      return;
    }
    if (!*completed) {
      const std::string trouble = next->trouble && !collective.has_ended() ? next->trouble() : "";
      // It begins when those before it have ended, as late as this has seen that.
      if (!trouble.empty()) {
        collective.fail(trouble);
      } else if (!collective.has_ended() && now - std::max(collective.since(), first_since_) >= timeout_ + next->own) {
        collective.fail("the device does not come to its end");
      }
      if (collective.has_ended()) {  // and those behind it, which come to an end without their values
        forget();
      }
      return;
    }
    if (const std::exception_ptr failure = next->work->exception()) {
      fail(collective, failure);
    }
    if (collective.has_ended()) {  // also where a lost peer was noticed: its backend is aborted
      forget();
      return;
    }
    collective.succeed({});
    drop_first();
    first_since_ = now;
  }
}

}  // namespace rollcall::process_group
