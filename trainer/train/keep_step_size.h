#pragma once

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/train/run_folders.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Sets `grad-accumulation`, where nobody did, so that a training which goes on from a checkpoint with other ranks has
/// as many images a step as before; leaves it where that cannot be. To be called before anything is made of the
/// settings. Collective; the same on all ranks, rank 0 looking for the checkpoint.
///
/// Errors (Unavailable): a peer was lost. A checkpoint that cannot be read is none here: loading it tells.
[[nodiscard]] Result<void> keep_step_size(settings::Settings& settings, const RunFolders& folders, const World& world);

}  // namespace rollcall::train
