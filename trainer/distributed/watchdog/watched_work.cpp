#include "trainer/distributed/watchdog/watched_work.h"

#include <optional>
#include <utility>

#include "trainer/distributed/errors/exceptions.h"

namespace rollcall::process_group {

RecordedSpan begin_span(const char* what, const CollectiveCall& call, const std::string& backend) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  if (!callbacks) {
    return nullptr;
  }
  auto span = std::make_shared<at::RecordFunction>(std::move(*callbacks));
  span->_setAsync();  // another thread may end it
  span->before(what + signature(call) + " over " + backend);
  return span;
}

WatchedWork::WatchedWork(c10::intrusive_ptr<c10d::Work> inner, std::shared_ptr<Watchdog> watchdog, CollectiveCall call,
                         Waiting waiting, RecordedSpan span, std::optional<c10::Device> device)
    : c10d::Work(/*rank=*/-1, inner->retrieveOpType()),
      inner_(std::move(inner)),
      watchdog_(std::move(watchdog)),
      call_(std::move(call)),
      waiting_(waiting),
      span_(std::move(span)) {
  if (waiting == MayNotEnd) {
    watched_ = WatchedCollective::of(inner_->getFuture(), watchdog_, call_, since_);
    watchdog_->watch(watched_);
  } else if (waiting == IsOfAStream) {
    watchdog_->watch({.work = inner_,
                      .collective = WatchedCollective::of_device(watchdog_, call_, since_, /*ends_device=*/true),
                      .device = *device});
  }
}

bool WatchedWork::wait(std::chrono::milliseconds timeout) {
  RECORD_USER_SCOPE("wait: " + call_.operation);
  if (watched_ && timeout == kNoTimeout) {
    watched_->future()->waitAndThrow();
    return true;
  }
  try {
    const bool done = inner_->wait(timeout);
    span_.reset();
    if (waiting_ != IsOfAStream) {
      watchdog_->end(call_);
    }
    return done;
  } catch (const std::exception& error) {
    throw CollectiveFailure(watchdog_->explain(call_, since_, error.what()));
  }
}

c10::intrusive_ptr<c10::ivalue::Future> WatchedWork::getFuture() {
  if (watched_) {
    return watched_->future();
  }
  auto future = inner_->getFuture();
  if (waiting_ == IsOfAStream) {
    return future;  // complete once the collective is enqueued
  }
  // Does not capture `this`: a thread that waits for the future need not keep the work.
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
