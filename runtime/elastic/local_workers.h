#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/file.h"
#include "runtime/base/result.h"
#include "runtime/elastic/idle_workers.h"
#include "runtime/elastic/launch_request.h"
#include "runtime/elastic/log_folders.h"
#include "runtime/elastic/log_pump.h"
#include "runtime/elastic/member.h"
#include "runtime/elastic/worker_group.h"

namespace rollcall::elastic {

/// The workers of this node over all generations. Starts the workers of a generation or gives it to survivors of the
/// previous one, keeps a standby for the next, and reports to `member` which worker failed and when all have ended. Not
/// thread-safe.
class LocalWorkers {
 public:
  /// All arguments must outlive the object.
  LocalWorkers(const LaunchRequest& request, const Environment& environment, EventLoop& loop, Member& member,
               const PrintLine& print_line)
      : request_(request),
        environment_(environment),
        loop_(loop),
        member_(member),
        print_line_(print_line),
        idle_(request.standby) {}

  /// Creates the folders of logs and error files. Errors: requested folders cannot be created.
  [[nodiscard]] Result<void> make_folders();
  /// Starts the workers of member.generation().
  void start();
  /// Stops the workers as `action` says, which is a Stop.
  void stop(const Action& action);
  void report_loss() { group_->report_loss(); }
  void kill();
  void forward(int signal) const;
  /// Collects ended workers; to be called after SIGCHLD.
  void reap();
  /// Handles deadlines that have passed at `now`.
  void tick(Clock::time_point now);
  /// Returns when tick() is due next; unset: never.
  [[nodiscard]] std::optional<Clock::time_point> next_tick() const;
  /// Ends the generation on this node once nothing of it runs except survivors.
  void finish_if_over();
  /// Ends the survivors at the end of the run. Returns the logs, some of which may still be waiting for a terminal.
  [[nodiscard]] std::vector<std::unique_ptr<LogPump>> end();

  /// Returns the workers of the last generation that has ended here.
  [[nodiscard]] const std::vector<EndedWorker>& last_ended() const { return last_ended_; }
  /// Returns when the last generation began.
  [[nodiscard]] Clock::time_point began() const { return began_; }
  [[nodiscard]] std::vector<pid_t> pids() const { return group_->pids(); }
  [[nodiscard]] std::optional<pid_t> standby() const { return idle_.standby(); }

 private:
  [[nodiscard]] AttemptFiles make_files();
  [[nodiscard]] Result<Worker> begin_worker(std::uint32_t local_rank, const AttemptFiles& files);
  [[nodiscard]] Result<File> open_stream(std::uint32_t local_rank, const AttemptFiles& files, bool err);
  [[nodiscard]] Result<Worker> launch(Environment environment, std::uint32_t local_rank, const File& out,
                                      const File& err) const;
  void fail_set_up(std::uint32_t local_rank, const Error& error);
  [[nodiscard]] Cause cause_at(std::uint32_t local_rank, pid_t pid) const;
  [[nodiscard]] Cause cause_of(const EndedWorker& ended) const;
  [[nodiscard]] std::optional<Clock::time_point> standby_due() const;
  void start_standby();

  const LaunchRequest& request_;
  const Environment& environment_;
  EventLoop& loop_;
  Member& member_;
  const PrintLine& print_line_;
  std::optional<LogFolders> folders_;
  File secret_;  ///< worker_secret(), once the run has a name
  std::unique_ptr<WorkerGroup> group_ = std::make_unique<WorkerGroup>();
  std::unique_ptr<LogPump> pump_;  ///< of the current generation
  std::optional<Cause> set_up_failure_;
  Clock::time_point began_;
  IdleWorkers idle_;
  std::vector<std::unique_ptr<LogPump>> old_pumps_;
  std::vector<EndedWorker> last_ended_;
};

}  // namespace rollcall::elastic
