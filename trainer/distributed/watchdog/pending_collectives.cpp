#include "trainer/distributed/watchdog/pending_collectives.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <utility>

#include "runtime/contract/deadlines.h"
#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/watchdog/watchdog.h"

namespace rollcall::process_group {
namespace {

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    unit += 1;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits.at(unit));
  return text.data();
}

std::string with_comma(const std::string& text) { return text.empty() ? "" : ", " + text; }

std::string what(const CollectiveCall& call) {
  return call.type + (call.sizes.empty() ? "" : " " + call.sizes) + with_comma(call.details);
}

}  // namespace

std::string signature(const CollectiveCall& call) {
  return call.type.empty() ? call.operation : call.operation + " of " + what(call);
}

std::string to_text(const CollectiveCall& call) {
  const std::string name = call.operation + " " + std::to_string(call.number);
  return call.type.empty() ? name : name + " (" + what(call) + ", " + bytes_text(call.bytes) + ")";
}

WatchedCollective::WatchedCollective(FuturePointer future, std::shared_ptr<Watchdog> watchdog, CollectiveCall call,
                                     Clock::time_point since)
    : future_(std::move(future)), watchdog_(std::move(watchdog)), call_(std::move(call)), since_(since) {}

std::shared_ptr<WatchedCollective> WatchedCollective::of(const FuturePointer& inner, std::shared_ptr<Watchdog> watchdog,
                                                         CollectiveCall call, Clock::time_point since) {
  std::shared_ptr<WatchedCollective> collective(new WatchedCollective(
      c10::make_intrusive<c10::ivalue::Future>(inner->elementType()), std::move(watchdog), std::move(call), since));
  inner->addCallback([collective](c10::ivalue::Future& done) {
    if (done.hasError()) {
      collective->fail(done.tryRetrieveErrorMessage());
    } else {
      collective->succeed(done.value());
    }
  });
  return collective;
}

std::shared_ptr<WatchedCollective> WatchedCollective::of_device(std::shared_ptr<Watchdog> watchdog, CollectiveCall call,
                                                                Clock::time_point since, bool ends_device) {
  std::shared_ptr<WatchedCollective> collective(new WatchedCollective(
      c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get()), std::move(watchdog), std::move(call), since));
  collective->ends_device_ = ends_device;
  return collective;
}

void WatchedCollective::succeed(const c10::IValue& value) {
  if (!ended_.exchange(true)) {
    watchdog_->end(call_);
    future_->markCompleted(value);
  }
}

void WatchedCollective::fail(const std::string& what, bool reported) {
  end_with(watchdog_->explain(call_, since_, what, reported));
}

void WatchedCollective::fail_by_itself(const Error& error) { end_with(watchdog_->explain_by_itself(error)); }

void WatchedCollective::end_with(const Error& error) {
  const CollectiveFailure failure(error);
  if (!ended_.exchange(true)) {
    future_->setError(std::make_exception_ptr(failure));
    if (ends_device_) {
      watchdog_->membership().device_fails(error);
    }
  }
}

// Collectives that end because a rank is lost.

void PendingCollectives::add(const std::shared_ptr<WatchedCollective>& collective) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [](const std::weak_ptr<WatchedCollective>& weak) {
    const std::shared_ptr<WatchedCollective> other = weak.lock();
    return !other || other->has_ended();
  });
  waiting_.push_back(collective);
}

std::vector<std::shared_ptr<WatchedCollective>> PendingCollectives::waiting_for(std::chrono::milliseconds age,
                                                                                Clock::time_point now) {
  const auto latest = now - age;
  std::vector<std::shared_ptr<WatchedCollective>> old;
  const std::lock_guard lock(mutex_);
  for (const std::weak_ptr<WatchedCollective>& weak : waiting_) {
    if (std::shared_ptr<WatchedCollective> collective = weak.lock();
        collective && !collective->has_ended() && collective->since() <= latest) {
      old.push_back(std::move(collective));
    }
  }
  return old;
}

void PendingCollectives::forget() { forget_device(std::string::npos); }

void PendingCollectives::process_ended(std::uint32_t peer, const HasLeft& has_left, Clock::time_point now) {
  const std::optional<bool> left = has_left(peer);
  if ((!lost_ || lost_->reported) && !left.value_or(false)) {
    // If the store is gone too, this may be the end of a run whose last collective is about to succeed.
    lost_ = Lost{.what = "the process of " + names_.of(peer) + " ended",
                 .since = now,
                 .patience = left ? deadline::kDrainEndedPeer : deadline::kDrainLostPeer};
  }
}

void PendingCollectives::ranks_are_lost(Clock::time_point now) {
  if (!lost_) {  // a rank that is known to be lost is waited for less
    lost_ = Lost{.what = "the agent reported that ranks are lost",
                 .since = now,
                 .patience = deadline::kDrainLostPeer,
                 .reported = true};
  }
}

void PendingCollectives::look(Clock::time_point now) {
  look_at_device(now);
  if (!lost_ || now - lost_->since < lost_->patience) {
    return;
  }
  for (const std::shared_ptr<WatchedCollective>& collective : waiting_for(lost_->patience, now)) {
    collective->fail(lost_->what, lost_->reported);
  }
}

// Collectives of a device.

namespace {

/// Ends the collective with the failure of `pointer`.
void fail(WatchedCollective& collective, const std::exception_ptr& pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const std::exception& error) {
    if (const std::optional<Error> own = device_error(error)) {
      collective.fail_by_itself(*own);
    } else {
      collective.fail(error.what());
    }
  } catch (...) {
    collective.fail("an unknown error");
  }
}

}  // namespace

void PendingCollectives::add(OnDevice collective) {
  add(collective.collective);
  const std::lock_guard lock(mutex_);
  on_device_.push_back(std::move(collective));
}

std::optional<PendingCollectives::OnDevice> PendingCollectives::first_on_device() {
  const std::lock_guard lock(mutex_);
  return on_device_.empty() ? std::nullopt : std::optional(on_device_.front());
}

void PendingCollectives::forget_device(std::size_t collectives) {
  const std::lock_guard lock(mutex_);
  const auto end = on_device_.begin() + static_cast<std::ptrdiff_t>(std::min(collectives, on_device_.size()));
  on_device_.erase(on_device_.begin(), end);
}

void PendingCollectives::look_at_device(Clock::time_point now) {
  c10::OptionalDeviceGuard guard;  // ends last: releasing a work uses its device, too
  while (const std::optional<OnDevice> first = first_on_device()) {
    const bool completed = look_at(*first, now, guard);
    if (first->collective->has_ended()) {  // also where a lost peer was noticed, and the backend is aborted: those
      forget_device(std::string::npos);    // behind it come to an end without their values
      return;
    }
    if (!completed) {
      return;
    }
    first->collective->succeed({});
    forget_device(1);
    first_since_ = now;
  }
}

/// Returns whether the device has completed the collective. Ends it if it failed, cannot be queried, or takes too long.
bool PendingCollectives::look_at(const OnDevice& first, Clock::time_point now, c10::OptionalDeviceGuard& guard) const {
  WatchedCollective& collective = *first.collective;
  try {
    guard.reset_device(first.device);  // may throw an earlier error of the device
    if (first.work->isCompleted()) {
      if (const std::exception_ptr failure = first.work->exception()) {
        fail(collective, failure);
      }
      return true;
    }
  } catch (...) {
    fail(collective, std::current_exception());
    return false;
  }
  if (collective.has_ended()) {
    return false;
  }
  // It begins when the one before has ended, at the latest when this thread has seen that.
  if (const std::string problem = first.health_check ? first.health_check() : ""; !problem.empty()) {
    collective.fail(problem);
  } else if (now - std::max(collective.since(), first_since_) >= timeout_ + first.own) {
    collective.fail("the device did not complete it");
  }
  return false;
}

}  // namespace rollcall::process_group
