#pragma once

#include <ATen/core/ivalue.h>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::process_group {

/// One collective as this rank issued it. Knows nothing of tensors.
struct CollectiveCall {
  std::uint64_t number = 0;  ///< among the group's collectives on this rank, from 1
  std::string operation;     ///< "all-reduce"
  std::string type;          ///< of the elements: "float32"
  std::string sizes;         ///< "[64, 3, 7, 7]"; empty where ranks may differ in them
  std::string details;       ///< "sum", "root 0", or empty
  std::int64_t bytes = 0;    ///< of this rank's input
};

/// What every rank must call alike, and without the number: "all-reduce of float32 [64, 3, 7, 7], sum".
[[nodiscard]] std::string signature(const CollectiveCall& call);

/// For people: "all-reduce 41 (float32 [64, 3, 7, 7], sum, 37.6 kB)".
[[nodiscard]] std::string to_text(const CollectiveCall& call);

class Watchdog;

/// How a collective ends for those who wait for it: as its backend says or, where the backend says nothing of a lost
/// peer, as the watchdog says. The first word counts. Thread-safe.
class WatchedCollective {
 public:
  using FuturePointer = c10::intrusive_ptr<c10::ivalue::Future>;
  using Clock = std::chrono::steady_clock;

  /// Follows `inner`, the backend's future of `call`, which began at `since`.
  [[nodiscard]] static std::shared_ptr<WatchedCollective> of(const FuturePointer& inner,
                                                             std::shared_ptr<Watchdog> watchdog, CollectiveCall call,
                                                             Clock::time_point since);

  /// Of a device: follows nothing, somebody else sees it end. `on_failure`: called where it fails, once that is told.
  [[nodiscard]] static std::shared_ptr<WatchedCollective> of_device(std::shared_ptr<Watchdog> watchdog,
                                                                    CollectiveCall call, Clock::time_point since,
                                                                    std::function<void()> on_failure);

  /// It has ended well.
  void succeed(const c10::IValue& value);
  /// Ends it with a CollectiveFailure that says where all ranks are; seconds. Where it was `told` that
  /// some are lost, with one that says `what`.
  void fail(const std::string& what, bool told = false);
  /// The same where this rank alone is the cause: no other is asked.
  void fail_by_itself(const Error& error);
  [[nodiscard]] bool has_ended() const { return ended_; }
  [[nodiscard]] Clock::time_point since() const { return since_; }
  [[nodiscard]] const FuturePointer& future() const { return future_; }

 private:
  void end_with(const Error& error);
  WatchedCollective(FuturePointer future, std::shared_ptr<Watchdog> watchdog, CollectiveCall call,
                    Clock::time_point since);

  const FuturePointer future_;
  const std::shared_ptr<Watchdog> watchdog_;
  const CollectiveCall call_;
  const Clock::time_point since_;
  std::function<void()> on_failure_;
  std::atomic<bool> ended_{false};
};

}  // namespace rollcall::process_group
