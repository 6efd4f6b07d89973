#pragma once

#include <c10/util/intrusive_ptr.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/membership/membership.h"
#include "trainer/distributed/membership/rank_query.h"
#include "trainer/distributed/processes/processes.h"
#include "trainer/distributed/watchdog/pending_collectives.h"

namespace rollcall::process_group {

struct WatchdogOptions {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  RankNames names{};
  std::chrono::milliseconds timeout{600'000};            ///< after which the backend ends a collective with an error
  const char* timeout_setting = "--collective-timeout";  ///< the setting that decided `timeout`, for messages
  bool compare = false;  ///< compares each call with rank 0's before it is made, which waits for rank 0
  std::optional<QueryTimeouts> query_timeouts{};  ///< for other ranks' answers; unset: chosen by world_size
  std::shared_ptr<Membership> membership = std::make_shared<Membership>();  ///< shared by all groups of this process
  bool expendable = false;  ///< whether the process continues without the group after a failure
};

/// Numbers a group's collectives on this rank, and finds out why one failed. One thread answers the queries of other
/// ranks, which start only when something is wrong; until then it only checks for one. So a rank that computes too long
/// or waits in another collective still reports its progress, and one that does not answer is stopped or lost. Another
/// thread, which never waits for the store, learns from the Membership which ranks are lost, and ends the collectives
/// that wait for them.
///
/// Thread-safe.
class Watchdog {
 public:
  /// `store` is the group's own; its connections are cloned. Calls `options.membership->join()`.
  Watchdog(const c10::intrusive_ptr<c10d::Store>& store, const WatchdogOptions& options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() { stop(); }

  /// Stops both threads; call it before the group's backends are destroyed. Takes at most 1 s. Reports to the other
  /// ranks that this one leaves in good order or, if something else than this group has failed, why it gives up. A
  /// failure of this group they know already.
  void stop();
  /// See Membership::end_well().
  [[nodiscard]] bool ended_well() const { return !shared_->failed && options_.membership->ended_well(); }
  /// Returns whether this group works but its process has failed, which stop() reports.
  [[nodiscard]] bool gives_up() const { return !shared_->failed && options_.membership->gave_up().has_value(); }

  /// Numbers a collective before it is issued. With WatchdogOptions::compare throws CollectiveFailure: (Mismatch) if
  /// rank 0 calls another one, (Unavailable) if rank 0 does not arrive in time.
  void begin(CollectiveCall& call);
  void end(const CollectiveCall& call);
  [[nodiscard]] std::uint64_t issued() const;
  [[nodiscard]] const RankNames& names() const { return options_.names; }

  /// Ends `collective` if a peer is lost and the backend does not report it.
  void watch(const std::shared_ptr<WatchedCollective>& collective) { shared_->pending.add(collective); }
  /// Watches a collective of a device: also ends it once it takes longer than the timeout, or its health check reports
  /// a problem.
  void watch(PendingCollectives::OnDevice collective) { shared_->pending.add(std::move(collective)); }
  [[nodiscard]] Membership& membership() const { return *options_.membership; }

  /// Returns the error for `call`, which began at `since` and failed with `what`. Asks all ranks for their progress,
  /// unless the agent `reported` that some are lost: then `what` is the whole reason. After a timeout it names the
  /// ranks that have not arrived. All later failures of the group get the error of the first one.
  [[nodiscard]] Error explain(const CollectiveCall& call, std::chrono::steady_clock::time_point since,
                              const std::string& what, bool reported = false);
  /// Returns the group's first error, which is `error` if this rank alone is the cause. Other ranks learn that this one
  /// gives up.
  [[nodiscard]] Error explain_by_itself(const Error& error);

 private:
  /// Shared with the threads, which may outlive this object.
  struct Shared {
    explicit Shared(const WatchdogOptions& options)
        : membership(options.membership),
          pending(options.names, options.timeout),
          store_holder(options.names.rank_of(0, options.world_size)) {}

    const std::shared_ptr<const Membership> membership;
    PendingCollectives pending;
    const std::optional<std::uint32_t> store_holder;  ///< the step's rank 0 in this group; unset if it is not in it
    std::mutex mutex;
    std::condition_variable changed;  ///< signals stop and stopped
    std::atomic<bool> stop{false};
    bool stopped = false;
    std::atomic<bool> failed{false};  ///< whether a collective has failed
    RankProgress now;
    std::string host_of_rank_0;  ///< guarded by mutex; empty until it is known

    [[nodiscard]] RankProgress progress() {
      const std::lock_guard lock(mutex);
      return now;
    }
  };

  static void answer(Shared& shared, std::chrono::milliseconds interval, const RankQuery& rank_query);
  static void look(Shared& shared, const WatchdogOptions& options, const RankQuery& rank_query);
  static void report_end(Shared& shared, const RankQuery& rank_query);
  [[nodiscard]] RankQuery rank_query(const c10::intrusive_ptr<c10d::Store>& store) const;
  void compare_with_rank_0(const CollectiveCall& call);
  /// `late`: after a timeout, which does not show which ranks are missing.
  [[nodiscard]] std::string ask_all(std::uint64_t number, bool late);

  const WatchdogOptions options_;
  c10::intrusive_ptr<c10d::Store> store_;  ///< separate from the thread's connection
  const std::shared_ptr<Shared> shared_;
  std::mutex explaining_;
  std::optional<Error> reported_;  ///< the group's first failure
};

/// Returns `group` with a watchdog around its backends: a collective that fails or takes longer than the timeout throws
/// CollectiveFailure, which names it and the missing ranks. `store` is the group's own. Every rank of the group calls
/// this function; it waits for none.
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> watch(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                           const c10::intrusive_ptr<c10d::Store>& store,
                                                           const WatchdogOptions& options);

/// Calls `connect`, which connects the devices of all ranks of `watched` and may never return, on a thread with the
/// current device of `type`, and watches it as a collective. Throws what `connect` throws, and CollectiveFailure if a
/// rank is lost or the timeout is over: the thread is then left behind with all that `connect` owns. Collective.
void watch_connecting(c10d::ProcessGroup& watched, c10::DeviceType type, std::function<void()> connect);

/// Returns what is wrong with a backend's connections, or an empty text. Called from any thread.
using HealthCheck = std::string (*)(c10d::Backend&);

/// Adds the backend that `group` has for tensors of device type `type` to `watched`, which watch() made of `group`,
/// with the same watchdog around it, and makes it the default.
void watch_device(c10d::ProcessGroup& watched, c10d::ProcessGroup& group, c10::DeviceType type,
                  HealthCheck health_check);

/// Closes the connections of the devices' backends, once. Each rank waits for all others, at most 5 s. Collective.
void disconnect_devices(const c10::intrusive_ptr<c10d::ProcessGroup>& watched);

/// Returns the backend for tensors of `type` without its watchdog, if it has one.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> unwatched_backend(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                                  c10::DeviceType type);

/// Returns why a device can no longer run the collectives of `group`, or of another group that shares its Membership:
/// one of them did not end, and its backend was aborted. That releases all waiting threads and leaves undefined values
/// in its tensors. Unset if the device works or there is none. `group` may be null. Thread-safe.
[[nodiscard]] std::optional<Error> device_failure_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group);

}  // namespace rollcall::process_group
