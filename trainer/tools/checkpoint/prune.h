#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/metrics/progress_display.h"
#include "trainer/tools/checkpoint/checkpoint_listing.h"

namespace rollcall::checkpoint_tool {

/// Which checkpoints stay, in the words of the trainer's options of these names.
struct PruneRules {
  std::int64_t keep_last = 3;
  std::size_t keep_best = 1;
  std::int64_t keep_every = 0;
};

/// What becomes of a file, and why, for people.
struct Fate {
  bool goes = false;
  std::string why;
};

/// Whether the rules count it: it has the name that a training gives, is no symbolic link,
/// belongs to this user or to root, and was not found damaged. What others left in a shared folder is theirs to prune.
[[nodiscard]] bool is_usable_checkpoint(const ListedFile& file);

/// Whether the file has a name that a training gives, to checkpoints or while it writes them; whatever its state.
[[nodiscard]] bool is_of_training(const ListedFile& file);

/// What becomes of each of the files of a folder, in any order. Of the usable checkpoints those go that
/// format::superfluous_steps() names; the best ones are those of the best validations that any of them tells of, and
/// that of best.h5. Temporary files of dead writers go; one that was finished only beside a usable checkpoint, since
/// without one it may hold the only good state. Everything else stays. Pure.
[[nodiscard]] std::vector<Fate> fates_of(const std::vector<ListedFile>& files, const PruneRules& rules);

struct PrunedFile {
  ListedFile file;
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
