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
  std::chrono::milliseconds timeout{600'000};            ///< after it the backend gives a collective up
  const char* timeout_setting = "--collective-timeout";  ///< which decided that, for messages
  bool compare = false;  ///< before each collective: does this rank call what rank 0 calls? Waits for rank 0
  std::optional<Allowance> answers{};  ///< for the answers of other ranks; nothing: as world_size asks for
  std::shared_ptr<Membership> membership = std::make_shared<Membership>();  ///< of all groups of this process
  bool expendable = false;  ///< the process goes on without the group where that fails
};

/// Numbers a group's collectives on this rank, and finds out why one failed. A thread answers other ranks,
/// which ask through the store only once something is wrong; until then all it does is look whether somebody
/// asks. So a rank that computes too long, or waits in another collective, still says where it is, and one that does
/// not answer is stopped or lost. Another thread, which waits for no store, hears of the Membership who is lost, and
/// ends what waits for them.
///
/// Thread-safe.
class Watchdog {
 public:
  /// `store` is the group's own; its connections are cloned. `options.membership` joins the group's ranks where it has
  /// not joined any.
  Watchdog(const c10::intrusive_ptr<c10d::Store>& store, const WatchdogOptions& options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() { stop(); }

  /// To be called before the group's backends go: asks and looks no more, at most 1 s. Other ranks learn that this one
  /// leaves in good order or, where something else than this group has failed, why it gives up. Where this group has,
  /// they know.
  void stop();
  /// See Membership::end_well().
  [[nodiscard]] bool ended_well() const { return !shared_->failed && options_.membership->ended_well(); }
  /// Whether this group could go on, but its process cannot: what stop() tells.
  [[nodiscard]] bool gives_up() const { return !shared_->failed && options_.membership->gave_up().has_value(); }

  /// Before a collective is issued: gives it its number. With WatchdogOptions::compare throws CollectiveFailure
  /// (Mismatch) where rank 0 calls another one, and (Unavailable) where rank 0 does not come in time.
  void begin(CollectiveCall& call);
  void end(const CollectiveCall& call);
  [[nodiscard]] std::uint64_t issued() const;
  [[nodiscard]] const RankNames& names() const { return options_.names; }

  /// Ends it where a peer turns out to be lost of which the backend says nothing.
  void watch(const std::shared_ptr<WatchedCollective>& collective) { shared_->pending.add(collective); }
  /// The same for one that a device carries; ends it, too, where it takes longer than the timeout, or `trouble` says
  /// what is wrong, if it is given. `own`: see PendingCollectives::add().
  void watch(const c10::intrusive_ptr<c10d::Work>& work, const std::shared_ptr<WatchedCollective>& collective,
             PendingCollectives::Trouble trouble = {}, std::chrono::milliseconds own = {}) {
    shared_->pending.add(work, collective, std::move(trouble), own);
  }
  [[nodiscard]] Membership& membership() const { return *options_.membership; }

  /// What to tell of `call`, which began at `since` and failed with `what`: asks all ranks where they are, unless it
  /// was `told` that some are lost: then `what` is all there is to say. After a time that only a timeout explains it
  /// names who has not arrived. The first failure of a group is told for all that follow.
  [[nodiscard]] Error explain(const CollectiveCall& call, std::chrono::steady_clock::time_point since,
                              const std::string& what, bool told = false);
  /// The same where this rank alone is the cause, with `error`: other ranks hear that it gives up.
  [[nodiscard]] Error explain_by_itself(const Error& error);

 private:
  /// What the threads share with this object, and may outlive it with.
  struct Shared {
    explicit Shared(const WatchdogOptions& options)
        : membership(options.membership), pending(options.names, options.timeout) {}

    const std::shared_ptr<const Membership> membership;
    PendingCollectives pending;
    std::mutex mutex;
    std::condition_variable changed;  ///< stop or stopped
    std::atomic<bool> stop{false};
    bool stopped = false;
    std::atomic<bool> failed{false};  ///< a collective has
    RankProgress now;

    [[nodiscard]] RankProgress progress() {
      const std::lock_guard lock(mutex);
      return now;
    }
  };

  static void answer(Shared& shared, std::chrono::milliseconds interval, const RankQuery& rank_query);
  static void look(Shared& shared, const WatchdogOptions& options, const RankQuery& rank_query);
  static void tell_end(Shared& shared, const RankQuery& rank_query);
  [[nodiscard]] RankQuery rank_query(const c10::intrusive_ptr<c10d::Store>& store) const;
  void compare_with_rank_0(const CollectiveCall& call);
  /// `late`: a timeout says that somebody did not come, not who.
  [[nodiscard]] std::string ask_all(std::uint64_t number, bool late);

  const WatchdogOptions options_;
  c10::intrusive_ptr<c10d::Store> store_;  ///< a connection beside the thread's
  const std::shared_ptr<Shared> shared_;
  std::mutex explaining_;
  std::optional<Error> told_;
};

/// `group` with a watchdog around its backends: a collective that fails or takes longer than the timeout throws
/// CollectiveFailure, which says what it was and who did not come. Point-to-point operations, which only two ranks
/// call, pass through. `store` is the group's own. Every rank of the group calls it, though it waits for nobody.
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> watch(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                           const c10::intrusive_ptr<c10d::Store>& store,
                                                           const WatchdogOptions& options);

/// Calls `connect`, which connects the devices of all ranks of `watched` and may wait for them for ever, on a thread
/// with the current device of `type`. It is watched as a collective. Throws what `connect` throws, and
/// CollectiveFailure where a rank is lost or it takes longer than the timeout: the thread is left behind then, with all
/// that `connect` owns. Collective.
void watch_connecting(c10d::ProcessGroup& watched, c10::DeviceType type, std::function<void()> connect);

/// What is wrong with a backend's connections; empty: nothing. Of any thread.
using TroubleOf = std::string (*)(c10d::Backend&);

/// Puts the backend that `group` has got for tensors of `type` since, those of a device, into what watch() has made of
/// it, with the same watchdog around it, and makes it the default.
void watch_device(c10d::ProcessGroup& watched, c10d::ProcessGroup& group, c10::DeviceType type, TroubleOf trouble);

/// Lets go of the connections of the devices' backends, once. Each rank waits for all of them, at most 5 s. Collective.
void let_go_of_devices(const c10::intrusive_ptr<c10d::ProcessGroup>& watched);

/// What watch() was around, for tensors of `type`; a group's own backend where nobody watches it.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> unwatched_backend(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                                  c10::DeviceType type);

/// Why a device no longer carries the collectives of `group`, or of another one that shares its
/// Membership: one of them did not end, and its backend was aborted, which lets go of all that
/// waits for one and leaves any values in its tensors. Nothing: it does, or there is none. `group` may be null.
/// Thread-safe.
[[nodiscard]] std::optional<Error> device_failure_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group);

}  // namespace rollcall::process_group
