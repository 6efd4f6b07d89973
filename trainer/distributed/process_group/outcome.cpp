#include "trainer/distributed/process_group/outcome.h"

#include <exception>
#include <utility>

#include "trainer/distributed/process_group/collective_failure.h"
#include "trainer/distributed/process_group/watchdog.h"

namespace rollcall::process_group {

Outcome::Outcome(FuturePointer future, std::shared_ptr<Watchdog> watchdog, CollectiveCall call, Clock::time_point since)
    : future_(std::move(future)), watchdog_(std::move(watchdog)), call_(std::move(call)), since_(since) {}

std::shared_ptr<Outcome> Outcome::of(const FuturePointer& inner, std::shared_ptr<Watchdog> watchdog,
                                     CollectiveCall call, Clock::time_point since) {
  const std::shared_ptr<Outcome> outcome(new Outcome(c10::make_intrusive<c10::ivalue::Future>(inner->elementType()),
                                                     std::move(watchdog), std::move(call), since));
  inner->addCallback([outcome](c10::ivalue::Future& done) {
    if (done.hasError()) {
      outcome->fail(done.tryRetrieveErrorMessage());
    } else {
      outcome->succeed(done.value());
    }
  });
  return outcome;
}

void Outcome::succeed(const c10::IValue& value) {
  if (!settled_.exchange(true)) {
    watchdog_->end(call_);
    future_->markCompleted(value);
  }
}

void Outcome::fail(const std::string& what) {
  const CollectiveFailure failure(watchdog_->explain(call_, since_, what));
  if (!settled_.exchange(true)) {
    future_->setError(std::make_exception_ptr(failure));
  }
}

}  // namespace rollcall::process_group
