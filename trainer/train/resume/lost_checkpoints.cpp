#include "trainer/train/resume/lost_checkpoints.h"

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "trainer/report/record_file.h"

namespace rollcall::train {
namespace {

std::string records_of(const std::string& folder) { return (std::filesystem::path(folder) / "metrics.jsonl").string(); }

/// Evaluates the records one after the other.
class SavesReader {
 public:
  SavesReader(const std::string& folder, Restart restart)
      : given_(absolute_folder(folder)), resolved_(resolved_folder(folder)), restart_(std::move(restart)) {}

  void take(const report::ReadRecord& record) {
    const std::string event = record.event();
    const bool has_saved = event == "checkpoint" && record.number("written") == 1;
    if (event == "begin") {
      begin(record);
      return;
    }
    if (has_saved || event == "step" || event == "end") {
      came_further(record);
    }
    if (has_saved) {
      saved(record.integer("step"));
    }
    // A finished start may have found nothing left to do, for instance after early stopping.
    const bool is_finished = event == "end" && !record.text("ending").starts_with("interrupted");
    if (is_here_ && (event == "validation" || is_finished)) {
      saves_.starts_without_step = 0;
    }
  }

  [[nodiscard]] const RecordedSaves& saves() const { return saves_; }

 private:
  void begin(const report::ReadRecord& record) {
    saves_.any_start = true;
    folder_ = record.text("checkpoint_folder");
    is_here_ = folder_.empty() || folder_ == given_ || record.text("resolved_checkpoint_folder") == resolved_;
    is_own_ = (!restart_.job.empty() && record.text("job") == restart_.job) ||
              (!restart_.run.empty() && record.text("run") == restart_.run);
    count_start(record);
    std::int64_t& newest = is_here_ ? saves_.of_training : saves_.elsewhere;
    const std::int64_t step = record.integer("step");  // later checkpoints were abandoned or lost
    newest = step == 0 ? -1 : std::min(newest, step);
  }

  /// Counts a start by Slurm once, however many steps or generations it had, and not the current one.
  void count_start(const report::ReadRecord& record) {
    const std::int64_t restarts = record.integer("restart_count", 0);
    const bool is_counted = restarts == last_restarts_ || restarts == restart_.count;
    if (!is_here_ || restart_.job.empty() || record.text("job") != restart_.job || is_counted) {
      return;
    }
    last_restarts_ = restarts;
    const std::int64_t step = record.integer("step");
    const bool again = step == saves_.last_began_at;
    saves_.failed_starts = again ? saves_.failed_starts + 1 : 1;
    saves_.starts_without_step = again ? saves_.starts_without_step + 1 : 1;
    saves_.last_began_at = step;
  }

  /// An interrupted start saves and ends in good order, also at the step at which it began.
  void came_further(const report::ReadRecord& record) {
    saves_.failed_starts = is_here_ ? 0 : saves_.failed_starts;
    if (is_here_ && record.integer("step") > saves_.last_began_at) {
      saves_.starts_without_step = 0;
    }
  }

  void saved(std::int64_t step) {
    if (!is_here_) {
      saves_.elsewhere = std::max(saves_.elsewhere, step);
      saves_.other_folder = folder_;
      return;
    }
    saves_.of_training = std::max(saves_.of_training, step);
    saves_.of_restart = is_own_ ? std::max(saves_.of_restart, step) : saves_.of_restart;
  }

  std::string given_;
  std::string resolved_;
  Restart restart_;
  std::string folder_;
  bool is_here_ = true;
  bool is_own_ = false;
  std::int64_t last_restarts_ = -1;
  RecordedSaves saves_;
};

}  // namespace

Restart restart_of(const Environment& environment) {
  const auto given = [&](std::string_view name) { return environment.get_non_empty(name).value_or(""); };
  Restart restart;
  restart.count = parse_integer<std::uint32_t>(given(env::kSlurmRestartCount)).value_or(0);
  restart.job = restart.count > 0 ? given(env::kSlurmJobId) : "";
  if (parse_integer<std::uint32_t>(given(env::kGeneration)).value_or(0) > 1) {
    restart.run = given(env::kRun);
  }
  return restart;
}

std::string resolved_folder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(folder, error);
  return error ? folder : resolved.string();
}

std::string absolute_folder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(folder, error).lexically_normal();
  return error ? folder : (absolute.has_filename() ? absolute : absolute.parent_path()).string();
}

Result<RecordedSaves> recorded_saves(const config::TrainConfig& config, const Restart& restart) {
  const std::string path = records_of(config.run.folder);
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) {
    return RecordedSaves();
  }
  ASSIGN_OR_RETURN(report::RecordFile file, report::RecordFile::open(path));
  SavesReader reader(config.checkpoint.load.folder, restart);
  RETURN_IF_ERROR(file.read([&](const report::ReadRecord& record) { reader.take(record); }));
  return reader.saves();
}

Result<void> check_none_lost(const config::TrainConfig& config, const std::string& resume, const Restart& restart,
                             const Result<RecordedSaves>& saves, std::vector<std::string>& warnings) {
  const std::string& folder = config.checkpoint.load.folder;
  const bool goes_on = config.checkpoint.load.resume == "auto";
  if (!goes_on && restart.is_first()) {
    return {};
  }
  RETURN_IF_ERROR(saves);
  const std::int64_t lost = std::max(goes_on ? saves->of_training : -1, saves->of_restart);
  if (lost >= 0) {
    return fail("--resume", resume,
                fmt::format("{} holds no checkpoint, but {} records that one of step {} was written", folder,
                            records_of(config.run.folder), lost),
                "finding out whether the site deleted the files or their file system is not mounted, or "
                "--resume=FILE with a copy of one, or submitting a new job with --resume=never to start at step 0",
                ErrorKind::NoInput);
  }
  if (goes_on && saves->elsewhere >= 0) {
    warnings.push_back(fmt::format(
        "--checkpoint-dir: {}: holds no checkpoint; {} records that one of step {} was written to another folder ({})",
        folder, records_of(config.run.folder), saves->elsewhere, saves->other_folder));
  }
  if (!restart.job.empty() && !saves->any_start) {
    warnings.push_back(
        fmt::format("job {} was restarted (restart count {}), but {} holds neither checkpoints nor records of its "
                    "earlier start",
                    restart.job, restart.count, folder));
  }
  return {};
}

Result<void> check_progress_made(const Restart& restart, const Result<RecordedSaves>& saves, std::int64_t step) {
  if (restart.job.empty() || !saves || saves->last_began_at != step) {
    return {};
  }
  if (saves->failed_starts >= kMaxFailedStarts) {
    return fail("job", restart.job,
                fmt::format("was started {} times at step {}, and no start recorded a step or wrote a new checkpoint",
                            saves->failed_starts, step),
                "finding out what ended these starts, then submitting again, which resumes from this step",
                ErrorKind::Usage);
  }
  if (saves->starts_without_step >= kMaxStartsWithoutStep) {
    return fail("job", restart.job,
                fmt::format("was started {} times at step {}, and no start recorded a later step",
                            saves->starts_without_step, step),
                "requesting more time (sbatch --time), or finding out what interrupts the job, then submitting again, "
                "which resumes from this step",
                ErrorKind::Usage);
  }
  return {};
}

void warn_of_older_checkpoint(const config::TrainConfig& config, const Result<RecordedSaves>& saves, std::int64_t step,
                              std::vector<std::string>& warnings) {
  if (!saves) {
    warnings.push_back("it is unknown whether a newer checkpoint was lost: " + saves.error().text());
  } else if (saves->of_training > step) {
    warnings.push_back(fmt::format(
        "--checkpoint-dir: {}: its newest readable checkpoint is of step {}, but {} records that one of step {} was "
        "written there and is gone; the steps after it are trained again",
        config.checkpoint.load.folder, step, records_of(config.run.folder), saves->of_training));
  }
}

}  // namespace rollcall::train
