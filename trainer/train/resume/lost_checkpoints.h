#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "trainer/config/train_config.h"

namespace rollcall::train {

/// The last checkpoints that the records of a run's folder tell of as written. -1: none.
struct RecordedSaves {
  bool any_start = false;           ///< whether there is a record of a start at all
  std::int64_t of_training = -1;    ///< the step, in this run's folder of checkpoints, since one last began behind it
  std::int64_t of_restart = -1;     ///< the step, in that folder, by any earlier start that this one is a restart of
  std::int64_t elsewhere = -1;      ///< as of_training, in another folder
  std::string other_folder{};       ///< that folder
  std::int64_t last_began_at = -1;  ///< the step, an earlier start of the job that this one is a restart of
  std::int64_t in_vain = 0;         ///< that start and those before it, in a row: see check_comes_further()
};

/// Whose work a start goes on with where it is not the first one: a job that Slurm started again (its number, and how
/// often), or a later generation of `rollcall run` (ROLLCALL_RUN). Both are empty in a first start.
struct Restart {
  std::string job = {};
  std::string run = {};
  std::int64_t count = 0;
  [[nodiscard]] bool is_first() const { return job.empty() && run.empty(); }
};
[[nodiscard]] Restart restart_of(const Environment& environment);

/// `folder`, which exists, by its one absolute name: "/p/run/", a relative path and a link to it are the same folder.
/// Where the file system does not tell, as given.
[[nodiscard]] std::string resolved_folder(const std::string& folder);
/// `folder` from the root on, its links not followed.
[[nodiscard]] std::string absolute_folder(const std::string& folder);

/// Reads metrics.jsonl of the run's folder, line by line; nothing where there is none. A folder of checkpoints is this
/// run's by the name that it was given or by the place that it is: a link may lead elsewhere since. Errors
/// (InputOutput): it cannot be read to its end.
[[nodiscard]] Result<RecordedSaves> recorded_saves(const config::TrainConfig& config, const Restart& restart);

/// Whether a run that finds no checkpoint may begin at step 0. It may where none was ever written, as where a job is
/// started again before its first save, and where --resume=never says so; a folder whose checkpoints are gone (deleted
/// by the site, a file system that is not mounted) is no beginning. `resume` is setting resume as given, `config`'s
/// folder holds no checkpoint. `warnings` gets what cannot be known.
///
/// Errors: NoInput: checkpoints were written there and are gone; that of `saves`.
[[nodiscard]] Result<void> check_none_lost(const config::TrainConfig& config, const std::string& resume,
                                           const Restart& restart, const Result<RecordedSaves>& saves,
                                           std::vector<std::string>& warnings);

/// Whether another start may be tried of a job that Slurm has started again and again, and that begins at `step` now:
/// not where kStartsInVain in a row began there and recorded neither a step, nor a checkpoint, nor that they finished
/// or were interrupted. One that was killed in the middle of its steps may come further at the next try. It may be
/// tried where the records cannot be read.
///
/// Errors: Usage: they came no further.
[[nodiscard]] Result<void> check_comes_further(const Restart& restart, const Result<RecordedSaves>& saves,
                                               std::int64_t step);
/// One that is preempted without notice may lose a few; that many have the same cause.
inline constexpr std::int64_t kStartsInVain = 5;

/// Warns where the records of the run's folder tell of a checkpoint that was written to its folder of checkpoints, is
/// newer than that of `step`, which the run goes on from, and so has been lost; or where that is not known.
void warn_of_older_checkpoint(const config::TrainConfig& config, const Result<RecordedSaves>& saves, std::int64_t step,
                              std::vector<std::string>& warnings);

}  // namespace rollcall::train
