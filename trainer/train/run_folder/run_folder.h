#pragma once

#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/launch_settings.h"
#include "trainer/config/train_config.h"
#include "trainer/train/job_context.h"
#include "trainer/train/run_folder/lease.h"

namespace rollcall::train {

/// Creates the folders of checkpoints and records and the staging directory on rank 0, checks that they are writable,
/// takes the `lease` of the folders unless rank 0 already holds it, and publishes what a killed run left in the staging
/// directory if this run resumes from it. Returns a line for people about that, or an empty text. Reports it and waits
/// if another run holds the folder. Errors: CannotCreate; Usage: ranks on several nodes would stage; those of
/// Lease::take() and publish_left_over().
[[nodiscard]] Result<std::string> prepare_folders(const config::TrainConfig& config, const JobContext& context,
                                                  const Environment& environment, std::optional<Lease>& lease);

/// Returns a warning if the site deletes old files (settings scratch.* of `launch`) and a checkpoint is near that age.
[[nodiscard]] std::optional<std::string> checkpoint_purge_warning(const settings::LaunchSettings& launch,
                                                                  const Environment& environment,
                                                                  const std::string& folder);

/// Returns a warning if others may write to the run's folder or to its folder of checkpoints, or own it; about the
/// first such folder.
[[nodiscard]] std::optional<std::string> shared_folder_warning(const config::TrainConfig& config);

}  // namespace rollcall::train
