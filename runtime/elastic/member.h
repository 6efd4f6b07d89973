#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/elastic/membership.h"

namespace rollcall::elastic {

/// The next thing that an agent does.
struct Action {
  enum class Kind {
    Start,       ///< start the workers of `generation`
    Stop,        ///< stop its workers, with `signal` first; with `keep`, survivors only leave `generation`
    ReportLoss,  ///< notify workers that are leaving the generation in good order that other workers are gone
    Send,        ///< send `report` to the coordinator
    FailOver,    ///< fail over to `successor` with a Join whose last generation is `generation`
    Promote,     ///< continue the run here: become the coordinator that succeeds that of `generation`
    Exit,        ///< exit with `outcome`
  };
  Kind kind = Kind::Send;
  Generation generation = {};
  Report report = {};
  Node successor = {};
  Outcome outcome = {};
  int signal = 0;
  bool keep = false;
  bool lost = false;  ///< Stop: workers of other nodes are gone
};

/// One agent's side of the protocol: decides what to do on orders, ends of workers, a broken connection or a signal. A
/// state machine without processes or sockets. It starts a generation only once, only after everything that it started
/// earlier has ended, and only one that is newer than all generations it knows of. When the coordinator is lost, it
/// contacts the nodes of the newest generation that it knows in the order of group rank: the first live one becomes the
/// coordinator. It follows one node at a time and leaves only one that is silent or gone, so that no two nodes can have
/// a majority. Not thread-safe.
class Member {
 public:
  void ordered(const Order& order);
  /// Handles the first failure among its workers, which are still to be stopped.
  void worker_failed(const Cause& cause);
  /// Handles that all its workers have ended. `causes`: why workers ended that no agent had stopped; empty where all
  /// succeeded or were stopped.
  void workers_ended(std::vector<Cause> causes);
  /// Handles the loss of the coordinator, or of the successor that it contacted. The workers of a `silent` one's node
  /// may be gone without notice; otherwise their connections are closed, or they end in good order.
  void coordinator_lost(const std::string& reason, bool silent);
  /// Handles a coordinator that violated the protocol and is not to be obeyed.
  void coordinator_refused(const std::string& reason);
  /// Handles a signal that asks this agent to end.
  void interrupted(int signal);

  [[nodiscard]] std::vector<Action> take_actions();

  enum class State { Waiting, Running, Stopping, Done, Left };
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const Generation& generation() const { return generation_; }
  [[nodiscard]] bool interrupted() const { return interrupted_; }
  /// Returns the whole state as a text. For tests.
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
  Generation generation_;        ///< the last that it started
  std::uint32_t newest_ = 0;     ///< newest generation that it knows of
  Generation known_;             ///< the newest generation whose nodes it knows
  std::uint32_t contacted_ = 0;  ///< number of its nodes contacted since the coordinator was lost
  std::string lost_;             ///< why the coordinator was lost
  bool leaving_ = false;
  bool interrupted_ = false;
  Outcome outcome_;
  std::vector<Cause> causes_;  ///< of the last generation on this node
  std::vector<Action> actions_;
};

}  // namespace rollcall::elastic
