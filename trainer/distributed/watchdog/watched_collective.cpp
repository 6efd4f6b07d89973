#include "trainer/distributed/watchdog/watched_collective.h"

#include <array>
#include <cstdio>
#include <exception>
#include <utility>

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
                                                                Clock::time_point since,
                                                                std::function<void()> on_failure) {
  std::shared_ptr<WatchedCollective> collective(new WatchedCollective(
      c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get()), std::move(watchdog), std::move(call), since));
  collective->on_failure_ = std::move(on_failure);
  return collective;
}

void WatchedCollective::succeed(const c10::IValue& value) {
  if (!ended_.exchange(true)) {
    watchdog_->end(call_);
    future_->markCompleted(value);
  }
}

void WatchedCollective::fail(const std::string& what, bool told) {
  end_with(watchdog_->explain(call_, since_, what, told));
}

void WatchedCollective::fail_by_itself(const Error& error) { end_with(watchdog_->explain_by_itself(error)); }

void WatchedCollective::end_with(const Error& error) {
  const CollectiveFailure failure(error);
  if (!ended_.exchange(true)) {
    future_->setError(std::make_exception_ptr(failure));
    if (on_failure_) {
      watchdog_->tell_of_device(error);
      on_failure_();
    }
  }
}

}  // namespace rollcall::process_group
