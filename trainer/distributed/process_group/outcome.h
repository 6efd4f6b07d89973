#pragma once

#include <ATen/core/ivalue.h>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "trainer/distributed/process_group/collective_call.h"

namespace rollcall::process_group {

class Watchdog;

/// How a collective ends for those who wait for it: as its back end says or, where the back end says nothing of a lost
/// peer, as the watchdog says. The first word counts. Thread-safe.
class Outcome {
 public:
  using FuturePointer = c10::intrusive_ptr<c10::ivalue::Future>;
  using Clock = std::chrono::steady_clock;

  /// Follows `inner`, the back end's future of `call`, which began at `since`.
  [[nodiscard]] static std::shared_ptr<Outcome> of(const FuturePointer& inner, std::shared_ptr<Watchdog> watchdog,
                                                   CollectiveCall call, Clock::time_point since);

  /// Ends it with a CollectiveFailure that says where all ranks are; seconds.
  void fail(const std::string& what);
  [[nodiscard]] bool is_settled() const { return settled_; }
  [[nodiscard]] Clock::time_point since() const { return since_; }
  [[nodiscard]] const FuturePointer& future() const { return future_; }

 private:
  Outcome(FuturePointer future, std::shared_ptr<Watchdog> watchdog, CollectiveCall call, Clock::time_point since);
  void succeed(const c10::IValue& value);

  const FuturePointer future_;
  const std::shared_ptr<Watchdog> watchdog_;
  const CollectiveCall call_;
  const Clock::time_point since_;
  std::atomic<bool> settled_{false};
};

}  // namespace rollcall::process_group
