#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "trainer/distributed/watchdog/watched_collective.h"

namespace rollcall::process_group {

/// Collectives that a device carries by itself: who waits for one (Work::wait() of NCCL) gives that to a stream and
/// goes on, so that nobody on the host hears of one that never ends. This looks, and ends what was waited for longer
/// than the timeout. A group's collectives are carried one after the other, in the order in which they were issued.
///
/// Thread-safe.
class DeviceCollectives {
 public:
  explicit DeviceCollectives(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  /// What is wrong with the connections that a collective needs, where its work does not say so; empty: nothing.
  using Trouble = std::function<std::string()>;

  /// `own`: how long it takes where no rank is waited for, which comes on top of the timeout.
  void add(c10::intrusive_ptr<c10d::Work> work, std::shared_ptr<WatchedCollective> collective, Trouble trouble = {},
           std::chrono::milliseconds own = {});
  /// To be called now and then.
  void look(WatchedCollective::Clock::time_point now);
  /// Looks at none of them any more.
  void forget();

 private:
  struct UnderWay {
    c10::intrusive_ptr<c10d::Work> work;
    std::shared_ptr<WatchedCollective> collective;
    Trouble trouble;
    std::chrono::milliseconds own;
  };
  /// The first whose end was not seen, where one is to be looked at.
  [[nodiscard]] std::optional<UnderWay> first();
  void drop_first();

  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::deque<UnderWay> under_way_;                    ///< guarded by mutex_
  WatchedCollective::Clock::time_point first_since_;  ///< that it has been the first; of the thread that looks
};

}  // namespace rollcall::process_group
