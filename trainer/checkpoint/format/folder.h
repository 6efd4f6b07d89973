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

/// A checkpoint that was found by its name; only reading it shows whether it is sound.
struct ListedCheckpoint {
  std::int64_t step = 0;  ///< steps of all epochs done when it was saved
  std::string path;
};

/// The checkpoint that was used, and those that were skipped.
struct UsedCheckpoint {
  std::string path;
  /// On rank 0, for the user: one for each damaged file, and one if others may write to the used file.
  std::vector<std::string> warnings;
};

/// Returns the checkpoints of `folder`, the highest step first. A folder that does not exist holds none. Errors
/// (InputOutput): the folder cannot be read to its end, so that its content is unknown and must not be considered
/// empty.
[[nodiscard]] Result<std::vector<ListedCheckpoint>> list_checkpoints(const std::string& folder);

/// Does the same for checkpoints of this user and root only, because others may leave theirs in a shared folder of a
/// project. Errors (InputOutput): also if an owner cannot be determined.
[[nodiscard]] Result<std::vector<ListedCheckpoint>> list_own_checkpoints(const std::string& folder);

/// Creates `folder` with its parents. Errors (CannotCreate): it cannot be created, listed or written to.
[[nodiscard]] Result<void> prepare_folder(const std::string& folder);

/// The bytes that this user may still write to a file system.
struct FreeSpace {
  std::uint64_t of_file_system = 0;  ///< for users who are not root
  /// The bytes that a quota leaves of it; unset if no quota is in force or it cannot be queried.
  std::optional<std::uint64_t> of_quota;
};

/// Returns the free space at the folder `path`, or nothing if the system does not report it. Queries quotas by
/// quotactl_fd(2), which local file systems support; on Lustre and GPFS, which have their own interfaces, the
/// allocation at the start of a write finds out.
[[nodiscard]] std::optional<FreeSpace> free_space_at(const std::string& path);

/// Errors (InputOutput): `space` is less than `bytes`; the message says what is missing and where. Pure.
[[nodiscard]] Result<void> check_free_space(const std::string& path, const FreeSpace& space, std::uint64_t bytes);

/// Describes for the user how others can change the file or folder `path`: others may write to it, another user owns it
/// or a link to it, or everybody may replace it. Returns a clause: "members of group 1001 may write to it", "user 1001
/// owns it"; empty if there is nothing to report or no such path. A project's folder around `path` that its members may
/// write to is not reported, as that is its purpose.
[[nodiscard]] std::string exposure(const std::string& path);

/// Reads what a rank needs from a checkpoint. Called again with an earlier one if any rank found this one damaged.
using UseCheckpoint = std::function<Result<void>(const CheckpointReader&)>;

/// Passes the newest checkpoint of `folder` (of list_own_checkpoints() if `passes_over_others`) to `use` on every rank.
/// If opening it or `use` fails on any rank with BadData, rank 0 renames the file to "<name>.damaged" (never deletes
/// it) and the previous one is tried. Returns nothing if the folder holds no checkpoint. Collective.
///
/// Errors, the same on all ranks: BadData: there are only damaged ones; Mismatch: the newest is of a newer format, or
/// another user's (Owner::ThisUser); NoInput: a rank does not see what rank 0 sees; InputOutput: the folder or the
/// newest file cannot be read for another reason, as falling back then could discard good work; any other error of
/// `use`.
[[nodiscard]] Result<std::optional<UsedCheckpoint>> use_latest(const std::string& folder, RankGroup& group,
                                                               const UseCheckpoint& use,
                                                               bool passes_over_others = false);

/// Renames this user's checkpoints of `folder` of steps above `last` to "<name>.superseded", or if that exists to
/// "<name>.superseded-2" and so on: they belong to a training that was abandoned for another, and nothing removes them.
/// Removes a best.h5 that points to one of them. Only the writer calls this. Errors (InputOutput): some files may not
/// be renamed.
[[nodiscard]] Result<void> supersede(const std::string& folder, std::int64_t last);

/// Tidies the folder after `step` was written: points best.h5 (a symbolic link) to the first of `best_step` and
/// retention.best_steps that has a checkpoint and removes a dangling link; supersedes checkpoints of higher steps;
/// removes this user's files that superfluous_steps() names, with `best_step` as the first of the best; removes
/// temporary files of dead writers. Reports no failures, because the checkpoint is safe without this and the next save
/// tries again. Only the writer calls this.
void tidy_folder(const std::string& folder, std::int64_t step, std::int64_t best_step, const Retention& retention);

/// Removes "step-*.h5.tmp-HOST-PID" files whose writer is dead (see writer_is_dead()).
void remove_stale_temporaries(const std::string& folder);

}  // namespace rollcall::checkpoint::format
