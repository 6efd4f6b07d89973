#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/elastic/coordination.h"
#include "runtime/elastic/launch_request.h"
#include "runtime/elastic/local_workers.h"
#include "runtime/elastic/log_pump.h"
#include "runtime/elastic/member.h"
#include "runtime/elastic/port_reservation.h"
#include "runtime/elastic/status.h"

namespace rollcall::elastic {

/// How `rollcall run` ended.
struct RunEnd {
  int exit_code = 0;
  std::string message;  ///< one line for the user, without a line feed; empty: nothing is to be said
};

/// The agent of one node: carries what happens here to `Member`, which decides, and does what it says. One thread, but
/// for --tee. It blocks the signals that it handles while it runs.
class Agent {
 public:
  /// `tell` is called at once. Other nodes' words in a line cannot steer the terminal.
  /// `environment` is this process's own, which workers inherit.
  Agent(LaunchRequest request, Environment environment, Tell tell);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// To the end of the run. Errors: what prevents its begin: no such program, no endpoint, folders that cannot be made.
  [[nodiscard]] Result<RunEnd> run();

 private:
  [[nodiscard]] Result<void> meet();
  [[nodiscard]] Newcomer newcomer(const std::optional<Generation>& last) const;
  void loop_once();
  void on_signal(int signal);
  [[nodiscard]] bool asks_again(int signal) const;
  void perform();
  void perform(const Action& action);
  void turn(const Action& action);
  void report(Report report);
  void announce(const Generation& generation);
  void announce_waiting(const Order& order);
  [[nodiscard]] bool had_a_place() const { return member_.generation().number > 0; }
  [[nodiscard]] bool speaks() const;
  [[nodiscard]] RunEnd ended_by(int signal, int exit_code) const;
  [[nodiscard]] RunEnd end_of(const Outcome& outcome) const;

  LaunchRequest request_;
  Environment environment_;
  Tell tell_;
  std::vector<std::unique_ptr<LogPump>> last_logs_;  ///< after loop_'s end: a terminal that stands holds up no signal
  EventLoop loop_;
  std::optional<rendezvous::Listener> listener_;  ///< for those who turn to this agent; the coordinator has its own
  std::unique_ptr<Coordination> coordination_;    ///< null until the others are found
  Member member_;
  PortReservation port_;
  LocalWorkers workers_;
  struct {
    int number = 0;
    Clock::time_point arrived;
  } first_signal_;  ///< that asked for the end
  bool told_that_it_waits_ = false;
  std::optional<Outcome> outcome_;
  std::optional<StatusServer> status_;
};

}  // namespace rollcall::elastic
