#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/intrusive_ptr.h>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group {

/// Describes one collective as this rank issued it, without its tensors.
struct CollectiveCall {
  std::uint64_t number = 0;  ///< of the group's collectives on this rank, from 1
  std::string operation;     ///< "all-reduce"
  std::string type;          ///< element type: "float32"; empty without tensors
  std::string sizes;         ///< "[64, 3, 7, 7]"; empty if ranks may differ in them
  std::string details;       ///< "sum", "root 0", or empty
  std::int64_t bytes = 0;    ///< size of this rank's input
};

/// Returns what must be the same on all ranks: "all-reduce of float32 [64, 3, 7, 7], sum".
[[nodiscard]] std::string signature(const CollectiveCall& call);

/// Returns a text for messages: "all-reduce 41 (float32 [64, 3, 7, 7], sum, 37.6 kB)".
[[nodiscard]] std::string to_text(const CollectiveCall& call);

class Watchdog;

/// The result of a collective for the threads that wait for it: from its backend or, if the backend does not report a
/// lost peer, from the watchdog. The first result counts. Thread-safe.
class WatchedCollective {
 public:
  using FuturePointer = c10::intrusive_ptr<c10::ivalue::Future>;
  using Clock = std::chrono::steady_clock;

  /// Makes one that follows `inner`, the backend's future of `call`, which began at `since`.
  [[nodiscard]] static std::shared_ptr<WatchedCollective> of(const FuturePointer& inner,
                                                             std::shared_ptr<Watchdog> watchdog, CollectiveCall call,
                                                             Clock::time_point since);

  /// Makes one for a device's collective, whose end the caller reports. `ends_device`: its failure is the device's, see
  /// Membership::device_fails().
  [[nodiscard]] static std::shared_ptr<WatchedCollective> of_device(std::shared_ptr<Watchdog> watchdog,
                                                                    CollectiveCall call, Clock::time_point since,
                                                                    bool ends_device);

  /// Ends it with success.
  void succeed(const c10::IValue& value);
  /// Ends it with a CollectiveFailure that describes the progress of all ranks, which takes seconds to find out. If the
  /// agent `reported` that ranks are lost, the failure says only `what`.
  void fail(const std::string& what, bool reported = false);
  /// Ends it with `error`, of which this rank alone is the cause, without asking other ranks.
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
  bool ends_device_ = false;
  std::atomic<bool> ended_{false};
};

/// A group's pending collectives. Ends those whose failure their backend does not report.
///
/// One kind waits for a lost peer. Gloo of LibTorch 2.15 reports a closed connection to operations that wait for a
/// message, but not to one that has received part of it, which waits until its timeout (Pair::signalException of
/// gloo/transport/tcp handles neither rx_ nor a send's ubuf). A peer is lost if its process is known to have ended and
/// it did not leave in good order. If only the agent reports lost ranks, the collectives end a second later.
///
/// The other kind runs on a device. Work::wait() of NCCL enqueues the wait on a stream and returns, so that the host
/// does not notice a collective that never ends. Those that take longer than the timeout are ended. A device runs a
/// group's collectives one after the other, in the order in which they were issued.
///
/// Thread-safe, but for process_ended(), ranks_are_lost() and look(), which one thread calls.
class PendingCollectives {
 public:
  using Clock = WatchedCollective::Clock;
  /// Returns whether a rank reported that it leaves in good order; unset if that cannot be found out. Returns soon.
  using HasLeft = std::function<std::optional<bool>(std::uint32_t rank)>;
  /// Returns what is wrong with the connections that a collective needs, if its work does not report it; empty:
  /// nothing.
  using HealthCheck = std::function<std::string()>;
  /// A collective of a device.
  struct OnDevice {
    c10::intrusive_ptr<c10d::Work> work;  ///< shows its state
    std::shared_ptr<WatchedCollective> collective;
    /// The current device of the thread that asks `work`: CUDA would make a context on the first one.
    c10::Device device;
    HealthCheck health_check = {};
    std::chrono::milliseconds own{};  ///< how long it takes without waiting for other ranks; added to the timeout
  };

  explicit PendingCollectives(const RankNames& names = {}, std::chrono::milliseconds timeout = std::chrono::minutes(10))
      : names_(names), timeout_(timeout) {}

  void add(const std::shared_ptr<WatchedCollective>& collective);
  void add(OnDevice collective);

  /// Records that the process of `peer` has ended. Call look() after deadline::kDrainEndedPeer.
  void process_ended(std::uint32_t peer, const HasLeft& has_left, Clock::time_point now);
  /// Records that the agent reported lost ranks, which may be on a node that does not respond and whose connections
  /// stay open. Call look() afterwards.
  void ranks_are_lost(Clock::time_point now);
  /// Checks all pending collectives and ends those that have failed. Call it repeatedly.
  void look(Clock::time_point now);

  /// Stops checking the collectives of devices.
  void forget();

 private:
  struct Lost {
    std::string what;
    Clock::time_point since;
    std::chrono::milliseconds patience;  ///< how long collectives may still take, from `since` and from their own start
    bool reported = false;               ///< whether the agent reported it: no rank is asked
  };
  /// Returns the collectives that began at least `age` ago, the oldest first.
  [[nodiscard]] std::vector<std::shared_ptr<WatchedCollective>> waiting_for(std::chrono::milliseconds age,
                                                                            Clock::time_point now);
  void look_at_device(Clock::time_point now);
  [[nodiscard]] bool look_at(const OnDevice& first, Clock::time_point now, c10::OptionalDeviceGuard& guard) const;
  [[nodiscard]] std::optional<OnDevice> first_on_device();
  void forget_device(std::size_t collectives);

  const RankNames names_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<WatchedCollective>> waiting_;  ///< guarded by mutex_
  std::deque<OnDevice> on_device_;                         ///< guarded by mutex_; those whose end was not seen yet
  // Used only by the thread that calls look().
  Clock::time_point first_since_;  ///< when the first entry of on_device_ became the first
  std::optional<Lost> lost_;
};

}  // namespace rollcall::process_group
