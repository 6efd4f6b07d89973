#pragma once

#include <c10/util/intrusive_ptr.h>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/this_process.h"
#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group {

/// Knows which ranks of a world are lost and which failure is the cause; one object for all groups of a process. The
/// watch of local processes, the agent, a device, a failed group and this rank's own error report to it. Groups query
/// it, and query other ranks through the store (rank_query.h).
///
/// The cause of a failure is the first one that a rank claims in the store. A rank that has an error claims it before
/// it closes anything that others would notice. A rank that misses another one claims that only once the other's
/// process is known to have ended without a report, or has not answered in time.
///
/// Thread-safe.
class Membership {
 public:
  /// `agent_has_lost` returns whether the agent has reported that ranks of this world are lost; empty without an agent.
  /// `host` is the name of this host in messages.
  explicit Membership(std::function<bool()> agent_has_lost = {}, std::string host = this_host_name())
      : agent_has_lost_(std::move(agent_has_lost)), host_(std::move(host)) {}

  /// Sets the store through which the ranks report to each other. Only the first call counts.
  void use(const c10::intrusive_ptr<c10d::Store>& store, std::uint32_t rank, std::uint32_t world_size);
  /// Calls use() and publishes this process, before the ranks connect. Only the first call counts. Throws what the
  /// store and ProcessWatch throw.
  void join(const c10::intrusive_ptr<c10d::Store>& store, std::uint32_t rank, std::uint32_t world_size);
  /// Watches the processes of this host. Call it once all of its ranks have joined; only the first call counts. Throws
  /// what join() throws.
  void watch_host();
  /// From now on takes the ranks whose connections to the store's server close for ended, and rank 0 once the server
  /// closes. Their groups know whether they left in good order. Needs a store of connect_store(). Call it once.
  void listen() const;
  /// Returns the watch that knows which ranks' processes have ended. Null before join().
  [[nodiscard]] const std::shared_ptr<ProcessWatch>& processes() const { return processes_; }
  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] bool agent_has_lost() const { return agent_has_lost_ && agent_has_lost_(); }

  // Record, for messages, which training step this rank works on, and that it is done: saves and validations follow.
  void begin_step(std::int64_t step) { step_ = step; }
  void end_step(std::int64_t step) { step_ = -step; }
  /// Returns "in step 10", "after step 10", or an empty text before the first step.
  [[nodiscard]] std::string step_text() const {
    const std::int64_t step = step_;
    return step == 0 ? "" : (step > 0 ? "in step " : "after step ") + std::to_string(std::abs(step));
  }

  /// Records why the groups of this process cannot continue, in one line that follows "rank 3 gave up: ". The first
  /// reason stays. A group that is closed afterwards reports it to its other ranks, not that this rank left in good
  /// order.
  void give_up(const std::string& what);
  [[nodiscard]] std::optional<std::string> gave_up() const;
  /// Records that a device's collectives no longer end, in any of the groups: streams that wait for each other make no
  /// progress, and values of all of them may be wrong. If this rank is the cause, claims it before others notice.
  void device_fails(const Error& error);
  /// Calls `then` once devices are to be aborted, on the thread that says so; at once if that has happened. `then`
  /// waits for nothing.
  void when_devices_are_aborted(std::function<void()> then);
  /// Aborts the groups of all devices together: one that is released waits in the next group's collective.
  void abort_devices();
  [[nodiscard]] std::optional<Error> device_failure() const;
  /// Records that all ranks and the collectives of their devices have ended in good order: groups of devices may close
  /// their connections together.
  void end_well() { ended_well_ = true; }
  [[nodiscard]] bool ended_well() const { return ended_well_ && !gave_up() && !device_failure(); }

  /// The failure that ends the training.
  struct Cause {
    bool mine = false;  ///< whether it is this rank's, which then reports it
    Error error;
  };
  /// Claims `error` as the cause, and returns the cause: `error`, unless a rank claimed another one before. Nothing if
  /// the store is gone, and rank 0 with it.
  [[nodiscard]] std::optional<Cause> claim(const Error& error) const;

  /// Reports that this rank needs nothing more from the store.
  void leave() const;
  /// On rank 0, which serves the store: waits until all others have left or their connections are closed.
  void wait_for_others_to_leave() const;
  /// On the other ranks: waits until rank 0 has left, after it reported an error of all ranks.
  void wait_for_rank_0_to_leave() const;

 private:
  void wait_for(std::uint32_t first, std::uint32_t end) const;

  const std::function<bool()> agent_has_lost_;
  const std::string host_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::uint32_t rank_ = 0;
  std::uint32_t world_size_ = 1;
  std::shared_ptr<ProcessWatch> processes_;
  bool watches_ = false;
  std::atomic<std::int64_t> step_{0};  ///< negative: this step is done; 0: none has begun
  mutable std::mutex mutex_;           ///< guards the next four members
  std::optional<std::string> gave_up_;
  std::optional<Error> device_failure_;
  std::vector<std::function<void()>> when_devices_are_aborted_;
  bool devices_are_aborted_ = false;
  std::atomic<bool> ended_well_{false};
};

/// Returns whether another rank was lost or late: it may have reported the cause.
[[nodiscard]] inline bool is_peer_failure(const Error& error) {
  return error.kind == ErrorKind::PeerLost || error.kind == ErrorKind::PeerTimeout;
}
/// Returns whether `error`, of ranks that were still to meet, may come from ranks that are missing.
[[nodiscard]] inline bool others_may_be_missing(const Error& error) {
  return is_peer_failure(error) || error.kind == ErrorKind::Unavailable ||
         error.kind == ErrorKind::RendezvousUnanswered;
}

}  // namespace rollcall::process_group
