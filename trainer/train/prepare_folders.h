#pragma once

#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/train/run_folders.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Creates the folder of checkpoints and the stage on rank 0, proves that they can be written, and finishes what a
/// killed run left in the stage, or with --resume=never clears it. A line for people, or an empty text. Errors:
/// CannotCreate; Usage where ranks on several nodes would stage; those of publish_left_over().
[[nodiscard]] Result<std::string> prepare_folders(const settings::Settings& settings, const RunFolders& folders,
                                                  const World& world);

/// A warning where the site deletes old files (settings scratch.* of `launch`) and a checkpoint is near that age.
[[nodiscard]] std::optional<std::string> checkpoint_purge_warning(const settings::Settings& launch,
                                                                  const Environment& environment,
                                                                  const std::string& folder);

}  // namespace rollcall::train
