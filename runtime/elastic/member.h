#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/elastic/membership.h"

namespace rollcall::elastic {

/// What an agent is to do next.
struct Action {
  enum class Kind {
    Start,  ///< the workers of `generation`
    Stop,   ///< its workers, by `signal` first; with `keep` not those that live on: they let go of `generation` alone
    TellOfLoss,  ///< workers that were told to let go in good order: others are gone
    Send,        ///< `report` to the coordinator
    Turn,        ///< to `successor`, of whom to become a member: of the newcomer, `generation` is the last
    Host,        ///< the run goes on here: become the coordinator, the successor of that of `generation`
    Exit,        ///< with `outcome`
  };
  Kind kind = Kind::Send;
  Generation generation = {};
  Report report = {};
  Node successor = {};
  Outcome outcome = {};
  int signal = 0;
  bool keep = false;
  bool lost = false;  ///< Stop: other workers are gone
};

/// One agent's side of the protocol: what it does when orders come, its workers end, its connection breaks or a signal
/// arrives. A state machine without processes or sockets. It starts a generation once, only after all that it had
/// started before has ended, and never one that is not newer than all it has heard of. When the coordinator is lost, it
/// turns to the nodes of the newest generation that it knows, one after the other by group rank: the first that lives
/// becomes the coordinator. It is one node's at a time, and turns away only from one that is silent or gone, so that no
/// two have a majority. Not thread-safe.
class Member {
 public:
  void ordered(const Order& order);
  /// The first failure among its workers, which are still to be stopped.
  void worker_failed(const Cause& cause);
  /// All its workers have ended. `causes`: why those did that no agent had stopped; none: all ended well, or were
  /// stopped.
  void workers_ended(std::vector<Cause> causes);
  /// The coordinator is gone, or the successor that it turned to is. One that is `silent` may have taken its node's
  /// workers with it, of which nobody hears; else their connections end with them, or they end in good order.
  void coordinator_lost(const std::string& reason, bool silent);
  /// It says what no agent says, and is not to be obeyed.
  void coordinator_refused(const std::string& reason);
  /// A signal asks this agent to end.
  void interrupted(int signal);

  [[nodiscard]] std::vector<Action> take_actions();

  enum class State { Waiting, Running, Stopping, Done, Left };
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const Generation& generation() const { return generation_; }
  [[nodiscard]] bool interrupted() const { return interrupted_; }
  /// All that decides what happens next, as a text. For tests.
  [[nodiscard]] std::string fingerprint() const;

 private:
  void begin(const Generation& generation);
  void stop(const Generation& generation, bool lost);
  void learn(const Generation& generation);
  void forget_before(std::uint32_t settled);
  void leave(Outcome outcome, int signal);
  void send(Report report);
  void stop_workers(int signal, bool lost);

  State state_ = State::Waiting;
  Generation generation_;     ///< the last that it started
  std::uint32_t newest_ = 0;  ///< of which it has heard
  Generation known_;          ///< the newest whose nodes it knows
  std::uint32_t turned_ = 0;  ///< to so many of these since the coordinator was lost
  std::string lost_;          ///< why it was
  bool leaving_ = false;
  bool interrupted_ = false;
  Outcome outcome_;
  std::vector<Cause> causes_;  ///< of the last generation here
  std::vector<Action> actions_;
};

}  // namespace rollcall::elastic
