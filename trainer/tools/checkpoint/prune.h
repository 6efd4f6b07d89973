#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/metrics/progress_display.h"
#include "trainer/tools/checkpoint/checkpoint_listing.h"

namespace rollcall::checkpoint_tool {

/// Which checkpoints are kept: the trainer's options of the same names.
struct PruneRules {
  std::int64_t keep_last = 3;
  std::size_t keep_best = 1;
  std::int64_t keep_every = 0;
};

/// Whether a file is removed, and the reason for users.
struct PruneDecision {
  bool is_removed = false;
  std::string reason;
};

/// Returns whether the rules apply to the file: it has the name of a training's checkpoint, is not a symbolic link,
/// belongs to this user or to root, and was not found damaged. Files of other users in a shared folder are theirs to
/// prune.
[[nodiscard]] bool is_usable_checkpoint(const ListedFile& file);

/// Returns whether the file has a name that a training gives to checkpoints or to files that it is writing, whatever
/// its state.
[[nodiscard]] bool is_of_training(const ListedFile& file);

/// Decides what to do with each file of a folder, in any order. Usable checkpoints are removed if
/// format::superfluous_steps() names them; the best ones are those of the best validations that any of them records,
/// and that of best.h5. Temporary files of dead writers are removed; a complete one only if there is a usable
/// checkpoint, since it may otherwise hold the only good state. Everything else is kept. Pure.
[[nodiscard]] std::vector<PruneDecision> prune_decisions(const std::vector<ListedFile>& files, const PruneRules& rules);

struct PrunedFile {
  ListedFile file;
  PruneDecision decision;
  bool verified = false;  ///< whether every byte was compared with its checksum
  bool removed = false;
};

/// The state of a `prune` of one folder.
struct Pruning {
  std::string folder;
  PruneRules rules;
  bool dry_run = false;
  std::vector<PrunedFile> files;  ///< by step, the oldest first
};

/// Sets each file's decision by the rules and by what has been found out about the files.
void decide(Pruning& pruning);

/// Reads the newest checkpoints completely until enough are intact to be kept as the newest ones. A damaged one no
/// longer counts, and decide() is called again.
void verify_newest(Pruning& pruning, metrics::WorkProgress& progress);

/// Removes the files to be removed, the oldest first, until one cannot be removed, and best.h5 if its target is gone. A
/// file that was replaced since it was read is kept, since a training may be running in the folder. Error: InputOutput.
[[nodiscard]] Result<void> remove_files(Pruning& pruning);

}  // namespace rollcall::checkpoint_tool
