#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/elastic/failure.h"
#include "runtime/elastic/membership.h"
#include "runtime/elastic/quorum.h"

namespace rollcall::elastic {

using Clock = std::chrono::steady_clock;

/// Identifies a member's connection. Numbers are never reused.
using MemberId = std::uint64_t;

/// A generation that has ended, with the reason and the time.
struct EndedGeneration {
  std::uint32_t number = 0;
  std::string reason = {};
  Clock::time_point at = {};
};

/// The coordinator's settings.
struct Policy {
  std::string run_id;
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::uint32_t max_restarts = 0;
  std::uint32_t give_up_after = 8;  ///< limit of consecutive generations that ended before `fruitful`
  std::chrono::milliseconds fruitful{30'000};
  std::chrono::milliseconds heartbeat_timeout{2'000};  ///< must be the same in all agents
  std::chrono::milliseconds join_timeout{600'000};
  std::chrono::milliseconds last_call_timeout{30'000};
  std::chrono::milliseconds stop_timeout{60'000};  ///< a member that has not stopped its workers by then is fenced
  /// How long the successor of a lost coordinator waits for all nodes before it continues with more than half of them.
  std::chrono::milliseconds reunion_timeout{5'000};
};

/// Tracks the members and decides what happens next: forms generations, ends them when a node joins, leaves or fails,
/// and ends the run. A state machine without clock, sockets or randomness: events go in with their time, orders come
/// out. tests/runtime/elastic explores its states, and docs/developer/elastic.md states its invariants.
///
/// A generation is formed only when every member of the previous one has reported that its workers have ended, or has
/// been fenced (its messages are ignored from then on), and only while the silent nodes could not have continued by
/// themselves (quorum.h). Not thread-safe. The first member to join is the coordinator's own agent, which is in every
/// generation.
///
/// The class holds one state: nearly every event reads and changes the members, the phase with its deadline, and the
/// generation with its counters. Separable questions have classes of their own: Quorum and Causes.
class Coordinator {
 public:
  using NewNonce = std::function<std::string()>;
  Coordinator(Policy policy, NewNonce new_nonce) : policy_(std::move(policy)), new_nonce_(std::move(new_nonce)) {}
  /// Creates the successor of the lost coordinator of `last`. It continues the run where more than half of the nodes
  /// (may_succeed()) and at least policy.min_nodes join it; otherwise it ends the run.
  Coordinator(Policy policy, NewNonce new_nonce, Generation last, Clock::time_point now);

  /// Handles a report of member `id`; the first of each member is a Join. Reports of members that were refused, lost or
  /// have left are ignored.
  void handle_report(MemberId id, const Report& report, Clock::time_point now);
  /// Fences a member whose connection broke or whose agent was silent for too long. `dead`: its process is known to
  /// have ended, so that it cannot continue under another coordinator.
  void lost(MemberId id, const std::string& reason, bool dead, Clock::time_point now);
  /// Handles deadlines that have passed at `now`.
  void tick(Clock::time_point now);

  /// Returns the orders since the last call, in order.
  [[nodiscard]] std::vector<std::pair<MemberId, Order>> take_orders() { return std::exchange(orders_, {}); }
  /// Returns when tick() is due next; unset: never.
  [[nodiscard]] std::optional<Clock::time_point> next_tick() const { return deadline_; }
  /// Returns whether the run has ended: no further generation will form.
  [[nodiscard]] bool ended() const { return phase_ == Phase::Ended; }

  [[nodiscard]] const Policy& policy() const { return policy_; }

  // For --status.
  enum class Phase { Reuniting, Gathering, Running, Stopping, Ended };
  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] const Generation& generation() const { return generation_; }
  [[nodiscard]] std::vector<Node> spares() const { return nodes_here(State::Waiting); }
  /// Returns the ends of earlier generations, newest last, at most 16.
  [[nodiscard]] const std::vector<EndedGeneration>& history() const { return history_; }
  /// Returns whether the coordinator's own agent has left and the other nodes can continue: this coordinator sends
  /// nothing more, and its owner closes the connections.
  [[nodiscard]] bool handed_over() const { return handed_over_; }
  /// Returns whether all nodes of the generation have acknowledged it.
  [[nodiscard]] bool confirmed() const { return quorum_.confirmed(); }
  /// Returns the node of a member; unset where `id` is not a member.
  [[nodiscard]] std::optional<Node> node_of(MemberId id) const;
  /// Returns the oldest generation that still has a vote, for Alive orders.
  [[nodiscard]] std::uint32_t settled() const { return quorum_.settled(); }
  /// Returns the whole state as a text: equal texts mean equal behaviour. For tests.
  [[nodiscard]] std::string fingerprint() const;

 private:
  enum class State { Waiting, Running, Done, Stopped };  ///< Waiting: in no generation
  struct Member {
    JoinRequest join_request = {};
    State state = State::Waiting;
    std::uint16_t port = 0;
    std::uint64_t order = 0;       ///< order of arrival
    std::uint32_t group_rank = 0;  ///< in the last generation that it belonged to
  };

  void join(MemberId id, const Report& report, Clock::time_point now);
  [[nodiscard]] std::string why_refused(const JoinRequest& join_request) const;
  void note(const Member& member, const std::vector<Cause>& causes, Clock::time_point now);
  void remove(MemberId id, Cause::Kind kind, const std::string& reason, Clock::time_point now);
  void own_agent_left(const std::string& reason);
  void reunite(bool time_is_up, Clock::time_point now);
  void succeed(Clock::time_point now);
  void order_wait(MemberId id);
  /// Returns the nodes of all members, or of those in `state`.
  [[nodiscard]] std::vector<Node> nodes_here(std::optional<State> state = {}) const;
  [[nodiscard]] bool has_own_node(const Generation& generation) const;
  void gather(Clock::time_point now);
  void form(Clock::time_point now);
  void stop_generation(const std::string& reason, bool lost, Clock::time_point now);
  void order_stop(const std::string& reason, bool lost);
  void consider_stopped(Clock::time_point now);
  void end(const Outcome& outcome);
  void order(MemberId id, Order order) { orders_.emplace_back(id, std::move(order)); }
  void become(Member& member, State state);
  [[nodiscard]] std::vector<MemberId> by_precedence() const;
  [[nodiscard]] bool any_member(State state) const;
  [[nodiscard]] Outcome failure(std::string reason) const;

  Policy policy_;
  NewNonce new_nonce_;
  Quorum quorum_;
  Phase phase_ = Phase::Gathering;
  std::map<MemberId, Member> members_;
  std::map<State, std::size_t>
      in_state_;  ///< number of members by state; kept since each of thousands of members changes state
  std::set<std::tuple<std::uint16_t, std::string, std::string>> node_keys_;  ///< keys of the nodes that listen
  std::set<MemberId> gone_;  ///< fenced or departed members, from which nothing is accepted, not even another Join
  std::uint64_t arrivals_ = 0;
  Generation generation_;
  Clock::time_point began_{};
  std::uint32_t newest_number_ = 0;
  std::uint32_t restarts_ = 0;
  std::uint32_t fruitless_ = 0;
  bool failed_ = false;   ///< a worker of this generation failed
  bool changed_ = false;  ///< a node of it was lost or left
  Causes causes_;         ///< failures of the last generation that ended with one
  std::optional<Clock::time_point> deadline_;
  bool handed_over_ = false;
  bool last_call_ = false;  ///< `deadline_` is that of the last call
  std::vector<std::pair<MemberId, Order>> orders_;
  std::vector<EndedGeneration> history_;
};

}  // namespace rollcall::elastic
