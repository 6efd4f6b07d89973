#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/metrics/progress_display.h"
#include "trainer/tools/checkpoint/prune_plan.h"
#include "trainer/tools/checkpoint/seen_file.h"

namespace rollcall::checkpoint_tool {

struct PrunedFile {
  SeenFile file;
  Fate fate;
  bool verified = false;  ///< every byte was compared with its checksum
  bool removed = false;
};

/// The files of a folder on their way through `prune`.
struct Pruning {
  std::string folder;
  PruneRules rules;
  bool dry_run = false;
  std::vector<PrunedFile> files;  ///< by step, the oldest first
};

/// Sets each file's fate by the rules and by what is known of the files.
void decide(Pruning& pruning);

/// Reads the newest checkpoints whole until as many are sound as are to stay for being the newest. One that is not
/// sound counts no longer: decide() again.
void verify_newest(Pruning& pruning, metrics::WorkProgress& progress);

/// Removes what goes, the oldest first, until one cannot be removed, and best.h5 where it would lead nowhere. What was
/// replaced since it was looked at stays, as a training may be at work in the folder. Error: InputOutput.
[[nodiscard]] Result<void> remove_files(Pruning& pruning);

}  // namespace rollcall::checkpoint_tool
