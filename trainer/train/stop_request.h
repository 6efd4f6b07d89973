#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "trainer/config/train_config.h"

// Requests to save and stop a run before its end: signals, and the time limit of the job.
namespace rollcall::train {

/// Catches TERM, USR1 and INT, which ask the run to stop. After training_begins() they only set a flag: the training
/// loop saves a checkpoint at its next step and ends. (A checkpoint that a signal handler writes is damaged or hangs.)
/// A second INT ends the process at once, for people at a keyboard.
///
/// Before training_begins() there is nothing to save. USR1 (the time limit is near) is remembered for the first step.
/// TERM means that Slurm ends the step, most likely because another rank failed under --kill-on-bad-exit: the process
/// exits at once and silently, with an exit code that does not hide the other rank's. (srun reports the highest exit
/// code of a step, and a killed task counts 128 + signal.)
///
/// Call it once, before threads start. SA_RESTART is set, so that no system call of the libraries fails with EINTR.
void catch_stop_signals();
void training_begins();
/// Ends the state that training_begins() began: this process alone has nothing to save. It exits at once if TERM has
/// arrived.
void training_pauses();

/// Returns the signal that arrived (SIGTERM, SIGUSR1, SIGINT), or 0. Any thread.
[[nodiscard]] int stop_signal();

/// Watches the end of the job and says when it is time to save and stop. Main thread only.
class TimeLimit {
 public:
  /// Returns the end of the job in seconds since the epoch, or nothing if it is unknown. Called again when the time
  /// seems to have come, as someone may have changed the limit meanwhile.
  using Ask = std::function<std::optional<double>(double now)>;

  /// Constructs a limit that is never near.
  TimeLimit() = default;
  /// `save_before`: seconds before the end, > 0. `end`: the end of the job as known now; nothing: unknown.
  TimeLimit(double save_before, std::optional<double> end, Ask ask_again);
  /// Constructs a limit that is never near, because Slurm sends a signal `notice` seconds before the end; nothing: the
  /// notice time is unknown.
  explicit TimeLimit(std::optional<double> notice) : notice_(notice) {}

  /// Returns whether fewer than save_before seconds are left; once true, it stays true. `now`: seconds since the epoch.
  [[nodiscard]] bool near(double now);
  /// Returns the seconds from `now` until near() becomes true; nothing if there is no limit.
  [[nodiscard]] std::optional<double> seconds_left(double now) const;
  /// Returns the seconds between the request to stop and the kill; nothing if unknown.
  [[nodiscard]] std::optional<double> notice() const { return notice_; }

 private:
  double save_before_ = 0;
  std::optional<double> notice_;
  std::optional<double> end_;
  Ask ask_again_;
  bool near_ = false;
};

/// The notice time in seconds that --signal in sbatch_templates/ gives a job.
inline constexpr double kNoticeOfTemplates = 120;

/// Returns a warning if a save that took `seconds` leaves little of the `notice` time for everything else that may take
/// time then (a step, a save in progress, a slower file system); else an empty text. `save_before_limit`: that setting
/// defines the notice, and not a signal. Pure.
[[nodiscard]] std::string slow_save_warning(double seconds, std::optional<double> notice, bool save_before_limit);

/// Returns the limit of this job by setting save-before-limit, on rank 0 only; other ranks learn of it with the step's
/// totals. `environment` outlives the result. `warnings` gets the reason if the limit has no effect.
[[nodiscard]] TimeLimit time_limit_of_job(const config::CheckpointConfig& config, const Environment& environment,
                                          std::uint32_t rank, std::vector<std::string>& warnings);

}  // namespace rollcall::train
