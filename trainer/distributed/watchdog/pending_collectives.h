#pragma once

#include <ATen/core/ivalue.h>
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

/// A group's collectives under way, and which of them end although their backend does not say so.
///
/// Those that wait for a lost peer: Gloo of LibTorch 2.15 tells a closed connection to operations that wait for a
/// message, not to one that had part of it, which then waits until its timeout (Pair::signalException of
/// gloo/transport/tcp knows neither rx_ nor a send's ubuf). A peer is lost whose process is known to have ended, unless
/// it left in good order. Where somebody else says that ranks are lost, a second later.
///
/// Those that a device carries by itself: who waits for one (Work::wait() of NCCL) gives that to a stream and goes on,
/// so that nobody on the host hears of one that never ends. What was waited for longer than the timeout is ended. A
/// group's are carried one after the other, in the order in which they were issued.
///
/// Thread-safe, but for process_ended(), ranks_are_lost() and look(), which one thread calls.
class PendingCollectives {
 public:
  using Clock = WatchedCollective::Clock;
  /// Whether a rank said that it leaves in good order; nothing where nobody can tell. Need not be waited for.
  using HasLeft = std::function<std::optional<bool>(std::uint32_t rank)>;
  /// What is wrong with the connections that a collective needs, where its work does not say so; empty: nothing.
  using HealthCheck = std::function<std::string()>;

  explicit PendingCollectives(const RankNames& names = {}, std::chrono::milliseconds timeout = std::chrono::minutes(10))
      : names_(names), timeout_(timeout) {}

  void add(const std::shared_ptr<WatchedCollective>& collective);
  /// One that a device carries, as `work` shows. `own`: how long it takes where no rank is waited for, which comes on
  /// top of the timeout.
  void add(c10::intrusive_ptr<c10d::Work> work, const std::shared_ptr<WatchedCollective>& collective,
           HealthCheck health_check = {}, std::chrono::milliseconds own = {});

  /// To be called when the process of `peer` has ended, and then look() after deadline::kEndedPeerIsRead.
  void process_ended(std::uint32_t peer, const HasLeft& has_left, Clock::time_point now);
  /// To be called once somebody else has said that ranks are lost, and look() from then on: they may be on a node that
  /// fell silent, and whose connections stay.
  void ranks_are_lost(Clock::time_point now);
  /// To be called now and then.
  void look(Clock::time_point now);

  /// Looks at no device any more.
  void forget();

 private:
  struct Lost {
    std::string what;
    Clock::time_point since;
    std::chrono::milliseconds patience;  ///< with collectives under way: since then, and since each began
    bool told = false;                   ///< by somebody else: no rank is asked
  };
  struct OnDevice {
    c10::intrusive_ptr<c10d::Work> work;
    std::shared_ptr<WatchedCollective> collective;
    HealthCheck health_check;
    std::chrono::milliseconds own;
  };

  /// Those that began at least `age` ago, the oldest first.
  [[nodiscard]] std::vector<std::shared_ptr<WatchedCollective>> waiting_for(std::chrono::milliseconds age,
                                                                            Clock::time_point now);
  void look_at_device(Clock::time_point now);
  [[nodiscard]] bool look_at(const OnDevice& first, Clock::time_point now) const;
  [[nodiscard]] std::optional<OnDevice> first_on_device();
  void forget_device(std::size_t collectives);

  const RankNames names_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<WatchedCollective>> waiting_;  ///< guarded by mutex_
  std::deque<OnDevice> on_device_;                         ///< guarded by mutex_: those whose end was not seen
  // Of the thread that looks.
  Clock::time_point first_since_;  ///< that the first on the device has been the first
  std::optional<Lost> lost_;
};

}  // namespace rollcall::process_group
