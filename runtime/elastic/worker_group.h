#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/elastic/coordinator.h"
#include "runtime/elastic/worker_link.h"

namespace rollcall::elastic {

/// A worker that has ended.
struct EndedWorker {
  std::uint32_t local_rank = 0;
  pid_t pid = 0;
  int exit_code = 0;  ///< 0 where a signal ended it
  int signal = 0;
  Clock::time_point seen;
  std::string error_file;                    ///< the file that it was given; empty: none
  std::optional<Clock::time_point> stopped;  ///< when this agent first asked it to stop; unset: it did not
  bool after_kill = false;
};

/// A worker's process.
struct Worker {
  pid_t pid = 0;
  std::unique_ptr<WorkerLink> link;  ///< null: the worker does not support links
};

/// The workers of one generation on this node: processes, each in a session of its own. Ends are noticed by SIGCHLD,
/// for which the caller waits (pidfd_open is missing in RHEL 8's kernel). Not thread-safe.
class WorkerGroup {
 public:
  /// Creates an empty group without a generation.
  WorkerGroup() = default;
  /// `error_files` by local rank: where each worker writes why it failed. May be shorter than the number of workers.
  explicit WorkerGroup(std::vector<std::string> error_files)
      : error_files_(std::move(error_files)), stage_(Stage::Running) {}
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;
  ~WorkerGroup();

  /// Adds `worker` under the next local rank.
  void adopt(Worker worker) { workers_.push_back(std::move(worker)); }

  /// Returns the workers that have ended since the last call, in any order. To be called after SIGCHLD. Their pids stay
  /// reserved until the group is destroyed, so that a signal cannot reach another process.
  [[nodiscard]] std::vector<EndedWorker> newly_ended();

  /// Returns the local rank and the reason of a worker that has reported unresponsive peers and is not being stopped.
  [[nodiscard]] std::optional<std::pair<std::uint32_t, std::string>> take_stall_report();

  /// Sends a signal to the process group of every worker.
  void forward(int signal) const;
  /// Stops the workers: sends `signal`, and after `grace` KILL to all processes left in their sessions. A second call
  /// sends KILL immediately. With `keep`, workers that survive a generation are asked to leave it instead, and `lost`
  /// says whether other workers of it are gone; those that do not leave it within `grace` get KILL.
  void stop(int signal, std::chrono::seconds grace, Clock::time_point now, bool keep = false, bool lost = false);
  /// Notifies the workers that were asked to leave the generation that other workers of it are lost.
  void report_loss();
  /// Handles deadlines that have passed at `now`.
  void tick(Clock::time_point now);
  /// Returns when tick() is due next; unset: never.
  [[nodiscard]] std::optional<Clock::time_point> next_tick() const;

  /// Returns the survivors by local rank once the group is over; a null link marks a local rank without one.
  [[nodiscard]] std::vector<Worker> take_survivors();
  /// Returns whether at least one worker would survive the end of the generation.
  [[nodiscard]] bool any_survives() const;

  /// Returns whether nothing but survivors runs any longer: all workers exited with status 0 or, where they were
  /// stopped, all processes of their sessions have ended. Where a worker failed, stop() comes first. Processes that
  /// survive KILL (blocked in the kernel, waiting for a device) are given up after another `grace`.
  [[nodiscard]] bool over() const;
  [[nodiscard]] bool gave_up() const { return stage_ == Stage::GivenUp; }
  [[nodiscard]] const std::vector<EndedWorker>& ended() const { return ended_; }
  [[nodiscard]] std::vector<pid_t> pids() const;

 private:
  enum class Stage { None, Running, Asked, Killed, Clean, GivenUp };
  [[nodiscard]] bool all_ended_well() const;
  /// Returns the workers that have ended or must end.
  [[nodiscard]] std::vector<pid_t> ended_or_ending() const;
  [[nodiscard]] bool has_ended(std::uint32_t local_rank) const;
  /// Returns whether every worker has ended or left the generation.
  [[nodiscard]] bool all_gone() const;
  void kill_sessions();
  void check_sessions(Clock::time_point now);

  std::vector<std::string> error_files_;  ///< by local rank
  std::vector<Worker> workers_;           ///< by local rank
  std::vector<EndedWorker> ended_;
  Stage stage_ = Stage::None;
  bool keep_ = false;  ///< survivors are kept
  std::chrono::seconds grace_{};
  std::optional<Clock::time_point> stopped_;
  Clock::time_point deadline_;   ///< deadline of the stage
  Clock::time_point next_look_;  ///< when the sessions are checked next
  std::chrono::milliseconds pause_{1};
};

}  // namespace rollcall::elastic
