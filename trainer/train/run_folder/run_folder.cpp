#include "trainer/train/run_folder/run_folder.h"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/base/owned_file.h"
#include "runtime/base/text.h"
#include "runtime/settings/values.h"
#include "runtime/storage/folders.h"
#include "runtime/storage/purge_age.h"
#include "trainer/checkpoint/background/commit.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/train/resume/resume_point.h"

namespace rollcall::train {
namespace {

namespace fs = std::filesystem;

Error unusable_stage(const config::CheckpointConfig& config, const std::string& reason, const std::string& action) {
  return fail("--checkpoint-stage", config.stage_given, reason, action, ErrorKind::CannotCreate);
}

Result<std::string> prepare_stage(const config::TrainConfig& train, const Environment& environment) {
  const config::CheckpointConfig& config = train.checkpoint;
  const storage::FolderObjection objection = storage::make_own_folder(fs::absolute(config.stage).string());
  if (!objection.reason.empty()) {
    return unusable_stage(config, objection.reason, "naming another folder on this node");
  }
  ASSIGN_OR_RETURN(const bool keeps, config.load.resume == "auto" ? true : restarted_job_continues(train, environment));
  if (!keeps) {  // its files are another run's and are removed when this one saves
    return std::string();
  }
  ASSIGN_OR_RETURN(const auto published, checkpoint::background::publish_left_over(config.stage, config.load.folder));
  if (published.passed_over) {
    return fmt::format("the checkpoint of step {} in {} belongs to an abandoned training: {} holds a later one",
                       *published.passed_over, config.stage, config.load.folder);
  }
  return published.step ? fmt::format("the checkpoint of step {} was still in {} and was copied to {}", *published.step,
                                      config.stage, config.load.folder)
                        : std::string();
}

bool lies_below(const std::string& path, const std::string& folder) {
  std::error_code ignored;
  const fs::path relative =
      fs::weakly_canonical(path, ignored).lexically_relative(fs::weakly_canonical(folder, ignored));
  return !relative.empty() && *relative.begin() != "..";
}

/// Creates the folder of checkpoints, and that of records if it is a different one.
Result<std::vector<Lease::Folder>> make_folders(const config::TrainConfig& config) {
  const std::string& checkpoints = config.checkpoint.load.folder;
  RETURN_IF_ERROR(checkpoint::format::prepare_folder(checkpoints));
  std::vector<Lease::Folder> folders{{"--checkpoint-dir", checkpoints}};
  std::error_code error;
  fs::create_directories(config.run.folder, error);
  const bool same = !error && fs::equivalent(config.run.folder, checkpoints, error);
  if (error) {
    return fail("--run-dir", config.run.folder, "cannot be created: " + errno_text(error.value()),
                what_to_try(error.value(), "naming another folder"), ErrorKind::CannotCreate);
  }
  if (!same) {
    folders.push_back({"--run-dir", config.run.folder});
  }
  return folders;
}

}  // namespace

Result<std::string> prepare_folders(const config::TrainConfig& train, const JobContext& context,
                                    const Environment& environment, std::optional<Lease>& lease) {
  const config::CheckpointConfig& config = train.checkpoint;
  if (!config.stage.empty() && context.num_nodes > 1) {
    return unusable_stage(config, "requires all ranks on one node, but this job has several nodes",
                          "leaving it out, since --checkpoint-mode=async writes from memory");
  }
  if (context.rank != 0) {
    lease.reset();  // of the previous world, if this process was its rank 0
    return std::string();
  }
  ASSIGN_OR_RETURN(const std::vector<Lease::Folder> folders, make_folders(train));
  std::chrono::duration<double> patience(config.lease_timeout);
  if (context.world_size > 1) {  // the other ranks wait in a collective meanwhile
    // In less time than three renewals a holder elsewhere cannot be found dead.
    const std::chrono::duration<double> most = std::max<std::chrono::duration<double>>(
        context.group_options.timeout / 2, 3 * Lease::kRenewal + std::chrono::seconds(1));
    patience = std::min(patience, most);
  }
  if (!lease || lease->lost_by_now()) {
    lease.reset();
    ASSIGN_OR_RETURN(lease, Lease::take(folders, environment, patience,
                                        [](const std::string& line) { fmt::print(stderr, "rollcall: {}\n", line); }));
  }
  return config.stage.empty() ? std::string() : prepare_stage(train, environment);
}

std::optional<std::string> checkpoint_purge_warning(const settings::LaunchSettings& launch,
                                                    const Environment& environment, const std::string& folder) {
  const std::uint32_t days = launch.purge_days;
  const Result<std::string> scratch = settings::expand_path(launch.scratch_folder, environment, "scratch.folder");
  if (days == 0 || !scratch || scratch->empty() || !lies_below(folder, *scratch)) {
    return std::nullopt;
  }
  const Result<storage::PurgeAge> age = storage::purge_age(folder, days, storage::kAtLaunch);
  if (!age || !age->days_left || *age->days_left > launch.warn_days) {
    return std::nullopt;
  }
  return fmt::format(
      "{} will be deleted by the site in {}, which deletes files in {} that are unused for {}; try copying what you "
      "want "
      "to keep to another file system",
      age->oldest, counted(std::max(0LL, std::llround(*age->days_left)), "day"), *scratch, counted(days, "day"));
}

std::optional<std::string> shared_folder_warning(const config::TrainConfig& config) {
  for (const auto& [setting, folder] :
       {std::pair("--run-dir", config.run.folder), std::pair("--checkpoint-dir", config.checkpoint.load.folder)}) {
    if (const std::string known = checkpoint::format::exposure(folder); !known.empty()) {
      return fmt::format(
          "{}: {}: {}; others can therefore stop this run and, unless the folder is sticky (chmod +t), replace its "
          "records "
          "and checkpoints; if this is not intended, try chmod go-w, or another folder",
          setting, folder, known);
    }
  }
  return std::nullopt;
}

}  // namespace rollcall::train
