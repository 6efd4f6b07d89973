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
#include "trainer/distributed/processes/processes.h"
#include "trainer/distributed/watchdog/device_collectives.h"
#include "trainer/distributed/watchdog/lost_peer_search.h"
#include "trainer/distributed/watchdog/rank_query.h"
#include "trainer/distributed/watchdog/watched_collective.h"

namespace rollcall::process_group {

/// Why the groups of this process that share it cannot go on: the first failure of any of them, or of the program
/// itself. A group that is closed afterwards tells its other ranks so; they would otherwise hear that this rank left in
/// good order. Thread-safe.
class FirstFailure {
 public:
  /// `what` in one line, as it follows "rank 3 gave up: ". The first that is told stays.
  void tell(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (!what_) {
      what_ = what;
    }
  }
  [[nodiscard]] std::optional<std::string> told() const {
    const std::lock_guard lock(mutex_);
    return what_;
  }
  /// That a device's collectives end no more, in any of the groups: streams that wait for each other stand still, and
  /// values of all of them may be wrong.
  void tell_of_device(const Error& error) {
    const std::lock_guard lock(mutex_);
    of_device_ = of_device_.value_or(error);
  }
  [[nodiscard]] std::optional<Error> of_device() const {
    const std::lock_guard lock(mutex_);
    return of_device_;
  }
  /// All ranks have come to their end in good order, and their devices to that of all collectives: groups of devices
  /// may let go of their connections together.
  void end_well() { ended_well_ = true; }
  [[nodiscard]] bool ended_well() const { return ended_well_ && !told() && !of_device(); }

 private:
  mutable std::mutex mutex_;
  std::optional<std::string> what_;
  std::optional<Error> of_device_;
  std::atomic<bool> ended_well_{false};
};

struct WatchdogOptions {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  RankNames names{};
  std::chrono::milliseconds timeout{600'000};            ///< after it the backend gives a collective up
  const char* timeout_setting = "--collective-timeout";  ///< which decided that, for messages
  bool compare = false;  ///< before each collective: does this rank call what rank 0 calls? Waits for rank 0
  std::function<bool()> ranks_lost{};  ///< whether somebody else has said that ranks are lost; empty: nobody does
  std::optional<Allowance> answers{};  ///< for the answers of other ranks; nothing: as world_size asks for
  std::shared_ptr<FirstFailure> first_failure = std::make_shared<FirstFailure>();  ///< of all groups that share it
};

/// Numbers a group's collectives on this rank, and finds out why one failed. A thread answers other ranks,
/// which ask through the store only once something is wrong; until then all it does is look whether somebody
/// asks. So a rank that computes too long, or waits in another collective, still says where it is, and one that does
/// not answer is stopped or lost. Another thread, which waits for no store, sees processes of this host end, so that a
/// lost one of these need not be waited for.
///
/// Thread-safe.
class Watchdog {
 public:
  /// `store` is the group's own; its connections are cloned. Ranks of this host are watched that called
  /// publish_process() before, with the same store. `broken_peers` returns the ranks to which connections are closed,
  /// for watch(); not called any more after stop().
  Watchdog(const c10::intrusive_ptr<c10d::Store>& store, const WatchdogOptions& options,
           std::function<std::vector<std::uint32_t>()> broken_peers);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() { stop(); }

  /// To be called before the group's backends go: asks and looks no more, at most 1 s. Other ranks learn that this one
  /// leaves in good order or, where something else than this group has failed, why it gives up. Where this group has,
  /// they know.
  void stop();
  /// See FirstFailure::end_well().
  [[nodiscard]] bool ended_well() const { return !shared_->failed && options_.first_failure->ended_well(); }
  /// Whether this group could go on, but its process cannot: what stop() tells.
  [[nodiscard]] bool gives_up() const { return !shared_->failed && options_.first_failure->told().has_value(); }

  /// Before a collective is issued: gives it its number. With WatchdogOptions::compare throws CollectiveFailure
  /// (Mismatch) where rank 0 calls another one, and (Unavailable) where rank 0 does not come in time.
  void begin(CollectiveCall& call);
  void end(const CollectiveCall& call);
  [[nodiscard]] std::uint64_t issued() const;
  [[nodiscard]] const RankNames& names() const { return options_.names; }

  /// Ends it where a peer turns out to be lost of which the backend says nothing.
  void watch(const std::shared_ptr<WatchedCollective>& collective) { shared_->search.add(collective); }
  /// The same for one that a device carries; ends it, too, where it takes longer than the timeout, or `trouble` says
  /// what is wrong, if it is given. `own`: see DeviceCollectives::add().
  void watch(const c10::intrusive_ptr<c10d::Work>& work, const std::shared_ptr<WatchedCollective>& collective,
             DeviceCollectives::Trouble trouble = {}, std::chrono::milliseconds own = {}) {
    shared_->on_device.add(work, collective, std::move(trouble), own);
    watch(collective);
  }
  /// Of this group or another one: see FirstFailure::tell_of_device().
  void tell_of_device(const Error& error) { options_.first_failure->tell_of_device(error); }
  [[nodiscard]] std::optional<Error> device_failure() const { return options_.first_failure->of_device(); }

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
    Shared(std::shared_ptr<ProcessWatch> peers, std::function<std::vector<std::uint32_t>()> broken_peers,
           const WatchdogOptions& options)
        : host_peers(std::move(peers)),
          search(std::move(broken_peers), options.names),
          on_device(options.timeout),
          ranks_lost(options.ranks_lost),
          first_failure(options.first_failure) {}

    const std::shared_ptr<ProcessWatch> host_peers;
    LostPeerSearch search;
    DeviceCollectives on_device;
    const std::function<bool()> ranks_lost;
    const std::shared_ptr<const FirstFailure> first_failure;
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
  static void look(Shared& shared, std::chrono::milliseconds interval, const RankQuery& rank_query);
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

/// The ranks to which a backend has no connection any more.
using BrokenPeers = std::vector<std::uint32_t> (*)(c10d::Backend&);

/// `group` with a watchdog around its backends: a collective that fails or takes longer than the timeout throws
/// CollectiveFailure, which says what it was and who did not come. Point-to-point operations, which only two ranks
/// call, pass through. `store` is the group's own. `broken_peers_of_gloo` is asked of the group's Gloo, where it has
/// one. Every rank of the group calls it, though it waits for nobody.
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> watch(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                           const c10::intrusive_ptr<c10d::Store>& store,
                                                           const WatchdogOptions& options,
                                                           BrokenPeers broken_peers_of_gloo);

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
/// WatchdogOptions::first_failure: one of them did not end, and its backend was aborted, which lets go of all that
/// waits for one and leaves any values in its tensors. Nothing: it does, or there is none. `group` may be null.
/// Thread-safe.
[[nodiscard]] std::optional<Error> device_failure_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group);

}  // namespace rollcall::process_group
