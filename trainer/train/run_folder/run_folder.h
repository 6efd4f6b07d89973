#pragma once

#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/launch_settings.h"
#include "trainer/config/train_config.h"
#include "trainer/train/run_folder/lease.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Creates the folders of checkpoints and records and the stage on rank 0, proves that they can be written, takes the
/// `lease` of the folders, unless rank 0 has held it before, and finishes what a killed run left in the stage, if it is
/// to be gone on from: a line for people on that, or an empty text. Waits where another run holds the folder, and tells
/// so. Errors: CannotCreate; Usage where ranks on several nodes would stage; those of Lease::take() and
/// publish_left_over().
[[nodiscard]] Result<std::string> prepare_folders(const config::TrainConfig& config, const World& world,
                                                  const Environment& environment, std::optional<Lease>& lease);

/// A warning where the site deletes old files (settings scratch.* of `launch`) and a checkpoint is near that age.
[[nodiscard]] std::optional<std::string> checkpoint_purge_warning(const settings::LaunchSettings& launch,
                                                                  const Environment& environment,
                                                                  const std::string& folder);

/// A warning where others may write to the run's folder or to that of its checkpoints, or own it: of the first of them.
[[nodiscard]] std::optional<std::string> shared_folder_warning(const config::TrainConfig& config);

}  // namespace rollcall::train
