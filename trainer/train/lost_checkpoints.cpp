#include "trainer/train/lost_checkpoints.h"

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "trainer/report/record_file.h"

namespace rollcall::train {
namespace {

std::string records_of(const std::string& folder) { return (std::filesystem::path(folder) / "metrics.jsonl").string(); }

/// Takes in the records one after the other.
class SavesReader {
 public:
  SavesReader(const std::string& folder, Restart restart)
      : given_(absolute_folder(folder)), resolved_(resolved_folder(folder)), restart_(std::move(restart)) {}

  void take(const report::ReadRecord& record) {
    if (record.event() == "begin") {
      begin(record);
    } else if (record.event() == "checkpoint" && record.number("written") == 1) {
      saved(record.integer("step"));
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
    const std::int64_t step = record.integer("step");  // what was saved beyond it was given up, or was lost
    newest = step == 0 ? -1 : std::min(newest, step);
  }

  /// Generations of one `rollcall run` are one start, and this one is none yet.
  void count_start(const report::ReadRecord& record) {
    const std::string run = record.text("run");
    const bool is_counted = !run.empty() && (run == last_run_ || run == restart_.run);
    if (restart_.job.empty() || record.text("job") != restart_.job || is_counted) {
      return;
    }
    last_run_ = run;
    const std::int64_t step = record.integer("step");
    saves_.began_there = step == saves_.last_began_at ? saves_.began_there + 1 : 1;
    saves_.last_began_at = step;
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
  std::string last_run_;
  RecordedSaves saves_;
};

}  // namespace

Restart restart_of(const Environment& environment) {
  const auto given = [&](std::string_view name) { return environment.get_non_empty(name).value_or(""); };
  Restart restart;
  if (const std::string times = given(env::kSlurmRestartCount); !times.empty() && times != "0") {
    restart.job = given(env::kSlurmJobId);
  }
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
  Result<report::RecordFile> file = report::RecordFile::open(path);
  if (!file) {
    return file.error();
  }
  SavesReader reader(config.checkpoint.load.folder, restart);
  if (Result<void> read = file->read([&](const report::ReadRecord& record) { reader.take(record); }); !read) {
    return read.error();
  }
  return reader.saves();
}

Result<void> check_none_lost(const config::TrainConfig& config, const std::string& resume,
                             const Environment& environment, std::vector<std::string>& warnings) {
  const std::string& folder = config.checkpoint.load.folder;
  const Restart restart = restart_of(environment);
  const bool goes_on = config.checkpoint.load.resume == "auto";
  if (!goes_on && restart.is_first()) {
    return {};
  }
  const Result<RecordedSaves> saves = recorded_saves(config, restart);
  if (!saves) {
    return saves.error();
  }
  const std::int64_t lost = std::max(goes_on ? saves->of_training : -1, saves->of_restart);
  if (lost >= 0) {
    return fail("--resume", resume,
                fmt::format("{} holds no checkpoint, though {} tells of one of step {} that was written", folder,
                            records_of(config.run.folder), lost),
                "looking where the files are (deleted by the site, a file system that is not mounted), --resume=FILE "
                "with a copy of one, or a new job with --resume=never to begin at step 0",
                ExitCode::NoInput);
  }
  if (goes_on && saves->elsewhere >= 0) {
    warnings.push_back(fmt::format(
        "--checkpoint-dir: {}: holds no checkpoint; {} tells of one of step {} that was written to another folder ({})",
        folder, records_of(config.run.folder), saves->elsewhere, saves->other_folder));
  }
  if (!restart.job.empty() && !saves->any_start) {
    warnings.push_back(
        fmt::format("job {} was started again (restart count {}), and {} holds neither checkpoints nor records of its "
                    "earlier start",
                    restart.job, environment.get_non_empty(env::kSlurmRestartCount).value_or("0"), folder));
  }
  return {};
}

Result<void> check_comes_further(const config::TrainConfig& config, const Environment& environment, std::int64_t step) {
  const Restart restart = restart_of(environment);
  const Result<RecordedSaves> saves = restart.job.empty() ? RecordedSaves() : recorded_saves(config, restart);
  if (!saves) {
    return saves.error();
  }
  if (saves->last_began_at != step || saves->began_there < kStartsInVain) {
    return {};
  }
  return fail(
      "job", restart.job,
      fmt::format("was started {} times at step {}, and came to no checkpoint behind it", saves->began_there, step),
      "looking at what ended these starts, checkpoints more often (--checkpoint-steps), or a longer time limit, "
      "then submitting again, which goes on from this step",
      ExitCode::Usage);
}

Result<std::string> older_checkpoint_warning(const config::TrainConfig& config, std::int64_t step) {
  const Result<RecordedSaves> saves = recorded_saves(config, {});
  if (!saves) {
    return saves.error();
  }
  const std::string& folder = config.checkpoint.load.folder;
  if (saves->of_training <= step) {
    return std::string();
  }
  return fmt::format(
      "--checkpoint-dir: {}: its newest checkpoint that can be read is of step {}; {} tells of one of step {} that was "
      "written there and is gone: what was trained since is done again",
      folder, step, records_of(config.run.folder), saves->of_training);
}

}  // namespace rollcall::train
