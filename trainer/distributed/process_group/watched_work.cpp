#include "trainer/distributed/process_group/watched_work.h"

#include <utility>

#include "trainer/distributed/process_group/collective_failure.h"

namespace rollcall::process_group {

WatchedWork::WatchedWork(c10::intrusive_ptr<c10d::Work> inner, std::shared_ptr<Watchdog> watchdog, CollectiveCall call,
                         bool may_wait_for_ever)
    : c10d::Work(/*rank=*/-1, inner->retrieveOpType()),
      inner_(std::move(inner)),
      watchdog_(std::move(watchdog)),
      call_(std::move(call)) {
  if (may_wait_for_ever) {
    outcome_ = Outcome::of(inner_->getFuture(), watchdog_, call_, since_);
    watchdog_->watch(outcome_);
  }
}

bool WatchedWork::wait(std::chrono::milliseconds timeout) {
  if (outcome_ && timeout == kNoTimeout) {
    outcome_->future()->waitAndThrow();
    return true;
  }
  try {
    const bool done = inner_->wait(timeout);
    watchdog_->end(call_);
    return done;
  } catch (const std::exception& error) {
    throw CollectiveFailure(watchdog_->explain(call_, since_, error.what()));
  }
}

c10::intrusive_ptr<c10::ivalue::Future> WatchedWork::getFuture() {
  if (outcome_) {
    return outcome_->future();
  }
  const auto future = inner_->getFuture();
  // Not `this`: whoever waits for the future need not keep the work.
  return future->then(
      [watchdog = watchdog_, call = call_, since = since_](c10::ivalue::Future& done) -> c10::IValue {
        if (done.hasError()) {
          throw CollectiveFailure(watchdog->explain(call, since, done.tryRetrieveErrorMessage()));
        }
        watchdog->end(call);
        return done.value();
      },
      future->elementType());
}

}  // namespace rollcall::process_group
