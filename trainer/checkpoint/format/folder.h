#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"

namespace rollcall::checkpoint::format {

/// Which checkpoints outlive the next one.
struct Retention {
  std::int64_t keep_last = 3;  ///< the newest so many, the one just written included; at least 1
};

/// A checkpoint by its name; whether it is sound shows only when it is read.
struct ListedCheckpoint {
  std::int64_t step = 0;  ///< steps (of all epochs) done when it was saved
  std::string path;
};

/// A checkpoint that was read and found sound, and what had to be passed over on the way to it.
struct UsableCheckpoint {
  std::string path;
  LoadedContent loaded;
  std::vector<std::string> warnings;  ///< one a damaged file, for the user
};

/// "step-00000123.h5"
[[nodiscard]] std::string checkpoint_name(std::int64_t step);

/// The checkpoints of `folder`, newest (highest step) first. A folder that does not exist holds none.
[[nodiscard]] std::vector<ListedCheckpoint> list_checkpoints(const std::string& folder);

/// Creates `folder` with its parents. Errors (CannotCreate): it cannot be made or written to.
[[nodiscard]] Result<void> prepare_folder(const std::string& folder);

/// The newest checkpoint of `folder` that is sound, read. A damaged one is renamed to "<name>.damaged" (never deleted)
/// and the one before it is tried. Nothing where the folder holds no checkpoint at all. Several processes may do this
/// at once and agree.
///
/// Errors: BadData where there are only damaged ones; Mismatch where the newest is of a newer format; InputOutput,
/// NoInput where the newest cannot be read for another reason, as falling back then could discard good work.
[[nodiscard]] Result<std::optional<UsableCheckpoint>> find_latest_usable(const std::string& folder);

/// After `step` was written: points best.h5 (a symbolic link) to the checkpoint of `best_step` where there is one, and
/// removes all but the newest `retention.keep_last` and the best. Checkpoints with a higher step are of a run that was
/// abandoned for this one; they are renamed to "<name>.superseded". Removes temporary files of dead writers. Failures
/// are not reported: nothing here is needed for the checkpoint's safety, and the next save tries again. Only the writer
/// calls this.
void tidy_folder(const std::string& folder, std::int64_t step, std::int64_t best_step, const Retention& retention);

/// Removes "*.tmp-HOST-PID" files whose writer is dead: on this host if there is no such process, from other hosts if
/// they are a day old.
void remove_stale_temporaries(const std::string& folder);

}  // namespace rollcall::checkpoint::format
