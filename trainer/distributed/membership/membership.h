#pragma once

#include <c10/util/intrusive_ptr.h>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "runtime/base/result.h"
#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group {

/// Who of a world is lost, and who says so: one for all groups of a process in its world. Sources report here: the
/// processes of this host, the agent, a device, a group that failed, this rank's own error. Groups ask here, and ask
/// other ranks by way of the store (rank_query.h).
///
/// The cause of a failure is the first one that a rank claims in the store, and order comes from evidence: a rank that
/// has an error claims before it lets go of anything that others would notice, and a rank that misses another one
/// claims only once it is known that that one said nothing before it ended, or that it did not answer in time.
///
/// Thread-safe.
class Membership {
 public:
  /// `agent_has_lost`: whether the agent has said that ranks of this world are lost; empty: there is no agent.
  explicit Membership(std::function<bool()> agent_has_lost = {}) : agent_has_lost_(std::move(agent_has_lost)) {}

  /// What this rank finds the others' word in. Only the first call counts.
  void use(const c10::intrusive_ptr<c10d::Store>& store, std::uint32_t rank, std::uint32_t world_size);
  /// The same, and takes its place among them, before they connect. Only the first call counts. Throws what the store
  /// throws, and those of ProcessWatch.
  void join(const c10::intrusive_ptr<c10d::Store>& store, std::uint32_t rank, std::uint32_t world_size);
  /// Watches the ranks of this host. To be called once all of them have joined; only the first call counts. Likewise.
  void watch_host();
  /// Hears of the store's server from now on whose connections are closed, and that it is gone itself: those processes
  /// have ended. Whether one left its groups in good order, they know. For a store of connect_store(). Once.
  void listen() const;
  /// Which ranks' processes have ended. Null before join().
  [[nodiscard]] const std::shared_ptr<ProcessWatch>& processes() const { return processes_; }
  [[nodiscard]] bool agent_has_lost() const { return agent_has_lost_ && agent_has_lost_(); }

  /// Why the groups of this process cannot go on, in one line, as it follows "rank 3 gave up: ". The first stays. A
  /// group that is closed afterwards tells its other ranks so; they would otherwise hear that this rank left in good
  /// order.
  void give_up(const std::string& what);
  [[nodiscard]] std::optional<std::string> gave_up() const;
  /// That a device's collectives end no more, in any of the groups: streams that wait for each other stand still, and
  /// values of all of them may be wrong. Where this rank is the cause, that is claimed before another one notices.
  void device_fails(const Error& error);
  [[nodiscard]] std::optional<Error> device_failure() const;
  /// All ranks have come to their end in good order, and their devices to that of all collectives: groups of devices
  /// may let go of their connections together.
  void end_well() { ended_well_ = true; }
  [[nodiscard]] bool ended_well() const { return ended_well_ && !gave_up() && !device_failure(); }

  /// The failure that ends the training.
  struct Cause {
    bool mine = false;  ///< this rank's, which tells it
    Error error;
  };
  /// The cause: `error`, unless a rank has claimed another one. Nothing where nobody can be asked: the store is gone,
  /// and rank 0 with it.
  [[nodiscard]] std::optional<Cause> claim(const Error& error) const;

  /// This rank has all that it needs to know of the others.
  void leave() const;
  /// Rank 0, which serves the store, waits here until all others have left, or their connections are closed.
  void let_others_leave() const;

 private:
  const std::function<bool()> agent_has_lost_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::uint32_t rank_ = 0;
  std::uint32_t world_size_ = 1;
  std::shared_ptr<ProcessWatch> processes_;
  bool watches_ = false;
  mutable std::mutex mutex_;  ///< of what follows
  std::optional<std::string> gave_up_;
  std::optional<Error> device_failure_;
  std::atomic<bool> ended_well_{false};
};

/// Another rank was lost or did not come in time: it may have said why.
[[nodiscard]] inline bool is_of_peer(const Error& error) {
  return error.kind == ErrorKind::PeerLost || error.kind == ErrorKind::PeerLate;
}
/// The same where the ranks were still to meet: others may not be there any more.
[[nodiscard]] inline bool others_may_be_missing(const Error& error) {
  return is_of_peer(error) || error.kind == ErrorKind::Unavailable || error.kind == ErrorKind::NobodyMet;
}

}  // namespace rollcall::process_group
