#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/tools/checkpoint/seen_file.h"

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

/// Whether the rules count it: it has the name that a training gives, is no symbolic link, and was not found damaged.
[[nodiscard]] bool is_usable_checkpoint(const SeenFile& file);

/// Whether the file has a name that a training gives, to checkpoints or while it writes them; whatever its state.
[[nodiscard]] bool is_of_training(const SeenFile& file);

/// What becomes of each of the files of a folder, in any order. Of the usable checkpoints those go that
/// format::superfluous_steps() names; the best ones are those of the best validations that any of them tells of, and
/// that of best.h5. Temporary files of dead writers go; one that was finished only beside a usable checkpoint, since
/// without one it may hold the only good state. Everything else stays. Pure.
[[nodiscard]] std::vector<Fate> fates_of(const std::vector<SeenFile>& files, const PruneRules& rules);

}  // namespace rollcall::checkpoint_tool
