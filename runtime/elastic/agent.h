#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/elastic/coordinator_link.h"
#include "runtime/elastic/launch_request.h"
#include "runtime/elastic/local_workers.h"
#include "runtime/elastic/log_pump.h"
#include "runtime/elastic/member.h"
#include "runtime/elastic/port_reservation.h"
#include "runtime/elastic/status.h"

namespace rollcall::elastic {

/// The result of `rollcall run`.
struct RunEnd {
  int exit_code = 0;
  std::string message;  ///< one line for the user, without a line feed; empty: nothing to print
};

/// The agent of one node. Passes the events of this node to `Member`, which decides, and carries out its actions. Runs
/// in one thread, apart from the threads of --tee. While it runs, the signals that it handles are blocked.
class Agent {
 public:
  /// `print_line` is called immediately; text from other nodes is made safe for the terminal first.
  /// `environment` is this process's own; workers inherit it.
  Agent(LaunchRequest request, Environment environment, PrintLine print_line);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// Runs until the run ends. Errors: the program does not exist, no endpoint, or a folder cannot be created.
  [[nodiscard]] Result<RunEnd> run();

 private:
  [[nodiscard]] Result<void> meet();
  [[nodiscard]] JoinRequest join_request(const std::optional<Generation>& last) const;
  void loop_once();
  void on_signal(int signal);
  [[nodiscard]] bool asks_again(int signal) const;
  void perform();
  void perform(const Action& action);
  void fail_over(const Action& action);
  void report(Report report);
  void announce(const Generation& generation);
  void announce_waiting(const Order& order);
  [[nodiscard]] bool was_in_a_generation() const { return member_.generation().number > 0; }
  [[nodiscard]] bool reports_result() const;
  [[nodiscard]] RunEnd ended_by(int signal, int exit_code) const;
  [[nodiscard]] RunEnd end_of(const Outcome& outcome) const;

  LaunchRequest request_;
  Environment environment_;
  PrintLine print_line_;
  std::vector<std::unique_ptr<LogPump>>
      last_logs_;  ///< written after loop_ has ended, so that a stuck terminal delays no signal
  EventLoop loop_;
  std::optional<rendezvous::Listener>
      listener_;  ///< accepts agents that fail over to this one; a coordinator has its own
  std::unique_ptr<CoordinatorLink> coordinator_link_;  ///< null until the coordinator is found
  Member member_;
  PortReservation port_;
  LocalWorkers workers_;
  struct {
    int number = 0;
    Clock::time_point arrived;
  } first_signal_;  ///< the first signal that asked this agent to end
  bool reported_waiting_ = false;
  std::optional<Outcome> outcome_;
  std::optional<StatusServer> status_;
};

}  // namespace rollcall::elastic
