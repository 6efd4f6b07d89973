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
  std::string error_file;                    ///< that it was given; empty: none
  std::optional<Clock::time_point> stopped;  ///< when this agent had told it to stop; nothing: it had not
  bool after_kill = false;
};

/// A worker's process.
struct Worker {
  pid_t pid = 0;
  std::unique_ptr<WorkerLink> link;  ///< null: it does not know of links
};

/// The workers of one generation on this node: processes, each with a session of its own. Ends are noticed by
/// SIGCHLD, which the caller awaits (all kernels have it; RHEL 8's lacks pidfd_open). Not thread-safe.
class WorkerGroup {
 public:
  /// Of no generation: nothing runs or happens.
  WorkerGroup() = default;
  /// `error_files`: by local rank, where the workers are to say why they fail; there may be fewer.
  explicit WorkerGroup(std::vector<std::string> error_files)
      : error_files_(std::move(error_files)), stage_(Stage::Running) {}
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;
  ~WorkerGroup();

  /// It becomes the next local rank.
  void adopt(Worker worker) { workers_.push_back(std::move(worker)); }

  /// To be called after SIGCHLD: the workers that have ended since, in no order. Their pids stay theirs until the group
  /// dies, so that a signal cannot reach another process.
  [[nodiscard]] std::vector<EndedWorker> newly_ended();

  /// The local rank of a worker that waits in vain for others of its generation, which is not being stopped, and why.
  [[nodiscard]] std::optional<std::pair<std::uint32_t, std::string>> take_complaint();

  /// Sends a signal to the process group of every worker.
  void forward(int signal) const;
  /// Begins to stop: `signal`, then KILL to whatever lives of the workers' sessions after `grace`. Again: KILL at once.
  /// With `keep`, workers that live on are told to let go of their generation instead, and whether others of it are
  /// `lost`; they get KILL where they do not within `grace`.
  void stop(int signal, std::chrono::seconds grace, Clock::time_point now, bool keep = false, bool lost = false);
  /// Tells those that were told to let go of their generation that others of it are lost.
  void tell_of_loss();
  /// Time has passed.
  void tick(Clock::time_point now);
  /// When tick() has something to do, if ever.
  [[nodiscard]] std::optional<Clock::time_point> next_tick() const;

  /// Once it is over: those that live on, by local rank; null links: none there.
  [[nodiscard]] std::vector<Worker> take_survivors();
  /// Whether some worker would live on.
  [[nodiscard]] bool any_lives_on() const;

  /// Nothing runs any longer but those that live on: all workers have ended well by themselves or, where they were
  /// stopped, also whatever they had started in their sessions. Where one ended otherwise, stop() comes first.
  /// Processes that not even KILL ends (waiting in the kernel for a device) are given up after the same time.
  [[nodiscard]] bool over() const;
  [[nodiscard]] bool gave_up() const { return stage_ == Stage::GivenUp; }
  [[nodiscard]] const std::vector<EndedWorker>& ended() const { return ended_; }
  [[nodiscard]] std::vector<pid_t> pids() const;

 private:
  enum class Stage { None, Running, Asked, Killed, Clean, GivenUp };
  [[nodiscard]] bool all_ended_well() const;
  /// Those that have ended, or have to.
  [[nodiscard]] std::vector<pid_t> doomed() const;
  [[nodiscard]] bool has_ended(std::uint32_t local_rank) const;
  /// All have ended, or let go.
  [[nodiscard]] bool all_gone() const;
  void kill_sessions();
  void look_for_living(Clock::time_point now);

  std::vector<std::string> error_files_;  ///< by local rank
  std::vector<Worker> workers_;           ///< by local rank
  std::vector<EndedWorker> ended_;
  Stage stage_ = Stage::None;
  bool keep_ = false;  ///< those that live on
  std::chrono::seconds grace_{};
  std::optional<Clock::time_point> stopped_;
  Clock::time_point deadline_;   ///< of the stage
  Clock::time_point next_look_;  ///< at the sessions
  std::chrono::milliseconds pause_{1};
};

}  // namespace rollcall::elastic
