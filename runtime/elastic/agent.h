#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/elastic/coordination.h"
#include "runtime/elastic/launch_request.h"
#include "runtime/elastic/log_folders.h"
#include "runtime/elastic/log_pump.h"
#include "runtime/elastic/member.h"
#include "runtime/elastic/port_reservation.h"
#include "runtime/elastic/status.h"
#include "runtime/elastic/worker_group.h"

namespace rollcall::elastic {

/// How `rollcall run` ended.
struct RunEnd {
  int exit_code = 0;
  std::string message;  ///< one line for the user, without a line feed; empty: nothing is to be said
};

/// The agent of one node: it starts workers when the coordinator says so, watches over them, and tells what became of
/// them. One thread, but for --tee. It blocks the signals that it handles while it runs.
class Agent {
 public:
  /// `tell` is called at once. Other nodes' words in a line cannot steer the terminal.
  /// `environment` is this process's own, which workers inherit.
  Agent(LaunchRequest request, Environment environment, Tell tell);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  ~Agent();

  /// To the end of the run. Errors: what prevents its begin: no such program, no endpoint, folders that cannot be made.
  [[nodiscard]] Result<RunEnd> run();

 private:
  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Newcomer newcomer(const std::optional<Generation>& last) const;
  void turn(const Action& action);
  void loop_once();
  void on_signal(int signal);
  void reap();
  void perform();
  void perform(const Action& action);
  void start(const Generation& generation);
  [[nodiscard]] Result<void> begin_worker(const Generation& generation, std::uint32_t local_rank,
                                          const AttemptFiles& files);
  [[nodiscard]] Result<void> start_worker(const Generation& generation, std::uint32_t local_rank,
                                          const AttemptFiles& files, const Variables& variables);
  [[nodiscard]] ProcessPlan plan_for(Environment environment, std::uint32_t local_rank, int link) const;
  [[nodiscard]] Result<int> open_stream(const Generation& generation, std::uint32_t local_rank,
                                        const AttemptFiles& files, bool err);
  [[nodiscard]] bool workers_are_alike() const;
  [[nodiscard]] std::optional<Clock::time_point> standby_due() const;
  void keep_standby();
  [[nodiscard]] bool start_standby();
  void discard(pid_t pid);
  void end_survivors();
  void report(Report report);
  void finish_group();
  void hear_complaints();
  [[nodiscard]] Cause cause_at(std::uint32_t local_rank, pid_t pid) const;
  [[nodiscard]] Cause cause_of(const EndedWorker& ended) const;
  [[nodiscard]] bool asks_again(int signal) const;
  [[nodiscard]] bool is_cause(const EndedWorker& ended) const;
  void announce(const Generation& generation);
  void announce_waiting(const Order& order);
  [[nodiscard]] bool had_a_place() const { return member_.generation().number > 0; }
  [[nodiscard]] RunEnd ended_by(int signal, int exit_code) const;
  [[nodiscard]] RunEnd end_of(const Outcome& outcome) const;
  [[nodiscard]] int interrupted_exit_code(int otherwise) const;
  void hand_error_file_up(const Outcome& outcome) const;
  [[nodiscard]] bool speaks() const;
  [[nodiscard]] std::string status() const;

  LaunchRequest request_;
  Environment environment_;
  Tell tell_;
  std::vector<std::unique_ptr<LogPump>> old_pumps_;  ///< after loop_'s end: a terminal that stands holds up no signal
  EventLoop loop_;
  std::optional<LogFolders> folders_;
  std::optional<rendezvous::Listener> listener_;  ///< for those who turn to this agent; the coordinator has its own
  std::unique_ptr<Coordination> coordination_;    ///< null until the others are found
  Member member_;
  PortReservation port_;
  std::unique_ptr<LogPump> pump_;
  std::unique_ptr<WorkerGroup> group_;
  int secret_ = -1;                  ///< worker_secret(), once the run has a name
  std::vector<Survivor> survivors_;  ///< of the generation before, by local rank
  Survivor standby_;
  bool standby_failed_ = false;
  std::vector<pid_t> discarded_;          ///< killed and not reaped yet
  std::vector<std::string> error_files_;  ///< by local rank, of the generation here
  std::optional<Cause> set_up_failure_;
  Clock::time_point began_;  ///< the generation here
  Clock::time_point stopped_at_;
  struct {
    int number = 0;
    Clock::time_point arrived;
  } first_signal_;                       ///< that asked for the end
  std::vector<EndedWorker> last_ended_;  ///< of the group before
  bool told_that_it_waits_ = false;
  std::optional<Outcome> outcome_;
  std::optional<StatusServer> status_;
};

}  // namespace rollcall::elastic
