#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "trainer/config/train_config.h"

// What asks a run to save and end before it is done: signals, and the time limit of the job.
namespace rollcall::train {

/// TERM, USR1 and INT ask for an end. From `training_begins()` on they only set a flag: the loop saves a checkpoint at
/// its next step and ends (a checkpoint written inside a signal handler corrupts or hangs). A second INT ends the
/// process at once, for people at a keyboard.
///
/// Before that there is nothing to save. USR1 (the time limit is near) is remembered for the first step. TERM means
/// that the step is being ended, most likely since another rank failed under --kill-on-bad-exit: the process leaves at
/// once and silently, with an exit code that does not hide the other rank's (srun reports the highest of a step, and a
/// killed task counts 128 + signal).
///
/// Call once, before threads start. SA_RESTART is set, so that no system call of the libraries fails with EINTR.
void catch_stop_signals();
void training_begins();
/// There is nothing to save by this process alone again, until training_begins(): it ends at once where TERM has
/// arrived.
void training_pauses();

/// The signal that arrived (SIGTERM, SIGUSR1, SIGINT), or 0. Any thread.
[[nodiscard]] int stop_signal();

/// Watches the end of the job: whether it is time to save and end by oneself. Main thread only.
class TimeLimit {
 public:
  /// Seconds since the epoch at which the job ends, or nothing where that is not known. Asked again once the time seems
  /// to have come, as somebody may have moved the limit meanwhile.
  using Ask = std::function<std::optional<double>(double now)>;

  /// Never near.
  TimeLimit() = default;
  /// `save_before`: seconds before the end, > 0. `end`: what is known of it now.
  TimeLimit(double save_before, std::optional<double> end, Ask ask_again);
  /// Never near: a signal says so, about `notice` seconds before the end; nothing: that is not known.
  explicit TimeLimit(std::optional<double> notice) : notice_(notice) {}

  /// Whether fewer than save_before seconds are left; stays so. `now` in seconds since the epoch.
  [[nodiscard]] bool near(double now);
  /// Seconds from `now` until near() becomes true; nothing where there is no limit.
  [[nodiscard]] std::optional<double> seconds_left(double now) const;
  /// Seconds from the moment at which a run is asked to end until it is killed, as far as is known.
  [[nodiscard]] std::optional<double> notice() const { return notice_; }

 private:
  double save_before_ = 0;
  std::optional<double> notice_;
  std::optional<double> end_;
  Ask ask_again_;
  bool near_ = false;
};

/// What --signal in sbatch_templates/ gives a job, in seconds.
inline constexpr double kNoticeOfTemplates = 120;

/// A warning where a save that took so many seconds leaves little of the `notice` for all else that may take time then
/// (a step, a save under way, a slower file system), or an empty text. `save_before_limit`: the notice is that
/// setting's, and else a signal's. Pure.
[[nodiscard]] std::string slow_save_warning(double seconds, std::optional<double> notice, bool save_before_limit);

/// The limit of this job, by setting save-before-limit; on rank 0 alone, from which the others learn with the step's
/// totals. `environment` outlives it. `warnings` gets why the limit is of no use.
[[nodiscard]] TimeLimit time_limit_of_job(const config::CheckpointConfig& config, const Environment& environment,
                                          std::uint32_t rank, std::vector<std::string>& warnings);

}  // namespace rollcall::train
