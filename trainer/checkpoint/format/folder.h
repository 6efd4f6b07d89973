#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/file_state.h"
#include "trainer/checkpoint/format/rank_group.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/format/retention.h"

namespace rollcall::checkpoint::format {

/// A checkpoint by its name; whether it is sound shows only when it is read.
struct ListedCheckpoint {
  std::int64_t step = 0;  ///< steps (of all epochs) done when it was saved
  std::string path;
};

/// The checkpoint that was used, and what had to be passed over on the way to it.
struct UsedCheckpoint {
  std::string path;
  std::vector<std::string> warnings;  ///< on rank 0, for the user: one a damaged file, and where others may write to it
};

/// The checkpoints of `folder`, newest (highest step) first. A folder that does not exist holds none. Errors
/// (InputOutput): it cannot be read to its end; what is in it is not known then, and it must not be taken for empty.
[[nodiscard]] Result<std::vector<ListedCheckpoint>> list_checkpoints(const std::string& folder);

/// The same, of this user's and root's alone: others may leave theirs in a folder that a project shares. Errors
/// (InputOutput): also where it cannot be told whose one is.
[[nodiscard]] Result<std::vector<ListedCheckpoint>> list_own_checkpoints(const std::string& folder);

/// Creates `folder` with its parents. Errors (CannotCreate): it cannot be made, listed or written to.
[[nodiscard]] Result<void> prepare_folder(const std::string& folder);

/// Bytes that this user may still write to a file system.
struct FreeSpace {
  std::uint64_t of_file_system = 0;  ///< for users who are not root
  std::optional<std::uint64_t>
      of_quota;  ///< what a quota leaves of it; nothing where none is in force or can be asked for
};

/// Free space at the folder `path`. Quotas are asked for by quotactl_fd(2), which local file systems answer; Lustre and
/// GPFS have means of their own, and there the allocation at the start of a write tells. Nothing where the system does
/// not say.
[[nodiscard]] std::optional<FreeSpace> free_space_at(const std::string& path);

/// Errors (InputOutput): `space` is less than `bytes`; says what is missing and where. Pure.
[[nodiscard]] Result<void> check_free_space(const std::string& path, const FreeSpace& space, std::uint64_t bytes);

/// What a user should know of the file or folder `path`, to which others may write, which is another user's or is
/// reached by another user's link, or which everybody may replace: a clause, "members of group 1001 may write to it",
/// "user 1001 owns it". Empty: nothing, or there is none. A project's folder that its members may write to, and in
/// which `path` lies, is what a project has its folders for.
[[nodiscard]] std::string exposure(const std::string& path);

/// What a rank does with a checkpoint: reads of it what it needs. Called again with an earlier one where any rank found
/// this one damaged.
using UseCheckpoint = std::function<Result<void>(const CheckpointReader&)>;

/// Gives the newest checkpoint of `folder` (of list_own_checkpoints() where it `passes_over_others`) to `use` on every
/// rank. Where it, or `use`, fails on any rank with BadData,
/// rank 0 renames the file to "<name>.damaged" (never deletes it) and the one before it is tried. Nothing where the
/// folder holds no checkpoint at all. Collective.
///
/// Errors, the same on all ranks: BadData where there are only damaged ones; Mismatch where the newest is of a newer
/// format, or another user's (Owner::ThisUser); NoInput where a rank does not see what rank 0 sees; InputOutput where
/// the folder or the newest cannot be read for another reason, as falling back then could discard good work; any other
/// of `use`.
[[nodiscard]] Result<std::optional<UsedCheckpoint>> use_latest(const std::string& folder, RankGroup& group,
                                                               const UseCheckpoint& use,
                                                               bool passes_over_others = false);

/// Renames this user's checkpoints of `folder` of steps above `last` to "<name>.superseded", or where that is taken
/// "<name>.superseded-2" and so on: they are of a training that was given up for another, and nothing removes them. A
/// best.h5 that means one of them goes. Only the writer calls this. Errors (InputOutput): some may have their names
/// still.
[[nodiscard]] Result<void> supersede(const std::string& folder, std::int64_t last);

/// After `step` was written: points best.h5 (a symbolic link) to the first of `best_step` and retention.best_steps that
/// has a checkpoint, removes one that leads nowhere, and removes what superfluous_steps() names of this user's files,
/// `best_step` being the first of the best; checkpoints of higher steps are superseded. Removes temporary files of dead
/// writers. Failures are not reported: nothing here is needed for the checkpoint's safety, and the next save tries
/// again. Only the writer calls this.
void tidy_folder(const std::string& folder, std::int64_t step, std::int64_t best_step, const Retention& retention);

/// Removes "step-*.h5.tmp-HOST-PID" files whose writer is dead (see writer_is_dead()).
void remove_stale_temporaries(const std::string& folder);

}  // namespace rollcall::checkpoint::format
