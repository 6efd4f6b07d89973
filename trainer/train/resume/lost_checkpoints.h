#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "trainer/config/train_config.h"

namespace rollcall::train {

/// The last checkpoints that the records of a run's folder report as written. -1: none.
struct RecordedSaves {
  bool any_start = false;  ///< there is a record of a start
  /// Step of the last one in this run's folder of checkpoints, since a start last began behind it.
  std::int64_t of_training = -1;
  std::int64_t of_restart = -1;     ///< step of the last one in that folder by an earlier start of the same job or run
  std::int64_t elsewhere = -1;      ///< step of the last one in another folder
  std::string other_folder{};       ///< that other folder
  std::int64_t last_began_at = -1;  ///< step at which an earlier start of the restarted job began
  std::int64_t failed_starts = 0;   ///< number of such starts in a row without progress: see check_progress_made()
  std::int64_t starts_without_step = 0;  ///< number of such starts in a row, also those that were interrupted
};

/// The work that a later start continues: a job that Slurm restarted (its number, and how often), or a later generation
/// of `rollcall run` (ROLLCALL_RUN). Both are empty in a first start.
struct Restart {
  std::string job = {};
  std::string run = {};
  std::int64_t count = 0;
  [[nodiscard]] bool is_first() const { return job.empty() && run.empty(); }
};
[[nodiscard]] Restart restart_of(const Environment& environment);

/// Returns the canonical path of `folder`, which exists: "/p/run/", a relative path and a link to it are the same
/// folder. Returns it unchanged if the file system does not resolve it.
[[nodiscard]] std::string resolved_folder(const std::string& folder);
/// Returns `folder` as an absolute path, without following links.
[[nodiscard]] std::string absolute_folder(const std::string& folder);

/// Reads metrics.jsonl of the run's folder line by line; returns an empty result if there is none. A folder of
/// checkpoints is this run's if it has the given name or is the same place, because a link may point elsewhere since.
/// Errors (InputOutput): it cannot be read to its end.
[[nodiscard]] Result<RecordedSaves> recorded_saves(const config::TrainConfig& config, const Restart& restart);

/// Checks that a run that finds no checkpoint may start at step 0. It may if none was ever written, for instance when a
/// job is restarted before its first save, or with --resume=never. It may not if checkpoints are gone (deleted by the
/// site, on a file system that is not mounted). `resume` is setting resume as given; the folder of `config` holds no
/// checkpoint. `warnings` gets what cannot be determined.
///
/// Errors: NoInput: checkpoints were written there and are gone; the error of `saves`.
[[nodiscard]] Result<void> check_none_lost(const config::TrainConfig& config, const std::string& resume,
                                           const Restart& restart, const Result<RecordedSaves>& saves,
                                           std::vector<std::string>& warnings);

/// Checks that another start of a restarted job is worthwhile, which begins at `step` now: not if kMaxFailedStarts
/// starts in a row began there and recorded neither a step, nor a checkpoint, nor that they finished or were
/// interrupted, and not if kMaxStartsWithoutStep starts in a row recorded neither a later step, nor a validation, nor
/// that they finished. A start that was killed in the middle of its steps may get further at the next try. If the
/// records cannot be read, another start is allowed.
///
/// Errors: Usage: these starts made no progress.
[[nodiscard]] Result<void> check_progress_made(const Restart& restart, const Result<RecordedSaves>& saves,
                                               std::int64_t step);
/// A job that is preempted without notice may lose a few starts; this many have the same cause.
inline constexpr std::int64_t kMaxFailedStarts = 5;
/// A job can be preempted with notice soon after each start; after this many it is too slow for the time that it gets.
inline constexpr std::int64_t kMaxStartsWithoutStep = 10;

/// Warns if the records of the run's folder report a checkpoint in its folder of checkpoints that is newer than that of
/// `step`, from which the run resumes, and was therefore lost; also if this is unknown.
void warn_of_older_checkpoint(const config::TrainConfig& config, const Result<RecordedSaves>& saves, std::int64_t step,
                              std::vector<std::string>& warnings);

}  // namespace rollcall::train
