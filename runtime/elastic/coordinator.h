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

/// A member's connection; the server gives each a number that no other has or had.
using MemberId = std::uint64_t;

/// A generation that is over, and since when.
struct EndedGeneration {
  std::uint32_t number = 0;
  std::string reason = {};
  Clock::time_point at = {};
};

/// What the coordinator goes by.
struct Policy {
  std::string run_id;
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::uint32_t max_restarts = 0;
  std::uint32_t give_up_after = 8;  ///< generations in a row that ended before `fruitful`
  std::chrono::milliseconds fruitful{30'000};
  std::chrono::milliseconds heartbeat_timeout{2'000};  ///< which all agents must have
  std::chrono::milliseconds join_timeout{600'000};
  std::chrono::milliseconds last_call_timeout{30'000};
  std::chrono::milliseconds stop_timeout{60'000};  ///< a member that has not stopped its workers by then is fenced
  /// How long the successor of a lost coordinator waits for all nodes, before it goes on with more than half.
  std::chrono::milliseconds reunion_timeout{5'000};
};

/// Who is in, and what happens next: forms generations, ends them when a node comes, goes or fails, and decides when
/// the run ends. A state machine without clock, sockets or randomness: what happened goes in with its time, orders come
/// out. tests/runtime/elastic explores its states. docs/developer/elastic.md states what always holds.
///
/// A generation is formed only when every member of the one before has said that its workers have ended, or has been
/// fenced: never heard again; and only while those who are silent could not have gone on by themselves (quorum.h). Not
/// thread-safe. The first member to join is the coordinator's own agent, which is in every generation.
///
/// Its members are one state: nearly every event reads and changes who is in, the phase with its deadline, the
/// generation and what is counted of it. What can be asked by itself has classes of its own, Quorum and Causes.
class Coordinator {
 public:
  using NewNonce = std::function<std::string()>;
  Coordinator(Policy policy, NewNonce new_nonce) : policy_(std::move(policy)), new_nonce_(std::move(new_nonce)) {}
  /// The successor of the coordinator of `last`, which was lost. It goes on where more than half of the nodes come to
  /// it (may_succeed()), and at least policy.min_nodes; else it ends.
  Coordinator(Policy policy, NewNonce new_nonce, Generation last, Clock::time_point now);

  /// A report of member `id`; the first of each is a Join. Reports of those who are refused, lost or have left count no
  /// more.
  void heard(MemberId id, const Report& report, Clock::time_point now);
  /// The connection broke, or its agent was silent for too long: it is fenced. `dead`: it is known to have ended, so
  /// that it goes on with nobody else.
  void lost(MemberId id, const std::string& reason, bool dead, Clock::time_point now);
  /// Time has passed.
  void tick(Clock::time_point now);

  /// Orders since the last call, in this order.
  [[nodiscard]] std::vector<std::pair<MemberId, Order>> take_orders() { return std::exchange(orders_, {}); }
  /// When tick() has something to do, if ever.
  [[nodiscard]] std::optional<Clock::time_point> next_tick() const { return deadline_; }
  /// All has been said: no further generation will come.
  [[nodiscard]] bool ended() const { return phase_ == Phase::Ended; }

  [[nodiscard]] const Policy& policy() const { return policy_; }

  // What --status shows.
  enum class Phase { Reuniting, Gathering, Running, Stopping, Ended };
  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] const Generation& generation() const { return generation_; }
  [[nodiscard]] std::vector<Node> spares() const { return nodes_here(State::Waiting); }
  /// Why earlier generations ended, the newest last; at most 16.
  [[nodiscard]] const std::vector<EndedGeneration>& history() const { return history_; }
  /// Its own agent left and the others can go on: it says nothing more, and whoever holds it lets go of them.
  [[nodiscard]] bool handed_over() const { return handed_over_; }
  /// All nodes of the generation have heard of it.
  [[nodiscard]] bool confirmed() const { return quorum_.confirmed(); }
  /// A member's node; nothing where it is none.
  [[nodiscard]] std::optional<Node> node_of(MemberId id) const;
  /// What an Alive order says: generations before this one have no say any longer.
  [[nodiscard]] std::uint32_t settled() const { return quorum_.settled(); }
  /// All that decides what happens next, as a text: equal texts behave alike. For tests.
  [[nodiscard]] std::string fingerprint() const;

 private:
  enum class State { Waiting, Running, Done, Stopped };  ///< Waiting: in no generation
  struct Member {
    Newcomer newcomer = {};
    State state = State::Waiting;
    std::uint16_t port = 0;
    std::uint64_t order = 0;       ///< in which it came
    std::uint32_t group_rank = 0;  ///< in the last generation that it was in
  };

  void join(MemberId id, const Report& report, Clock::time_point now);
  [[nodiscard]] std::string why_refused(const Newcomer& newcomer) const;
  void note(const Member& member, const std::vector<Cause>& causes, Clock::time_point now);
  void remove(MemberId id, Cause::Kind kind, const std::string& reason, Clock::time_point now);
  void own_agent_left(const std::string& reason);
  void reunite(bool time_is_up, Clock::time_point now);
  void succeed(Clock::time_point now);
  void tell_to_wait(MemberId id);
  /// The nodes of all members, or of those in `state`.
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
  std::map<State, std::size_t> in_state_;  ///< how many of them: each of thousands says that it has stopped
  std::set<std::tuple<std::uint16_t, std::string, std::string>> places_;  ///< of those of them that listen
  std::set<MemberId> gone_;  ///< who was fenced or left: nothing of theirs counts, not even another Join
  std::uint64_t arrivals_ = 0;
  Generation generation_;
  Clock::time_point began_{};
  std::uint32_t newest_number_ = 0;
  std::uint32_t restarts_ = 0;
  std::uint32_t fruitless_ = 0;
  bool failed_ = false;   ///< a worker of this generation failed
  bool changed_ = false;  ///< a node of it was lost or left
  Causes causes_;         ///< of the last generation that ended otherwise than well
  std::optional<Clock::time_point> deadline_;
  bool handed_over_ = false;
  bool last_call_ = false;  ///< `deadline_` is that of the last call
  std::vector<std::pair<MemberId, Order>> orders_;
  std::vector<EndedGeneration> history_;
};

}  // namespace rollcall::elastic
