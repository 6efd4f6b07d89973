#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/rank_group.h"
#include "trainer/checkpoint/format/retention.h"
#include "trainer/checkpoint/format/writer.h"

namespace rollcall::checkpoint::background {

/// The destination of a checkpoint, and the retention of the other checkpoints there.
struct Destination {
  std::string folder;
  std::int64_t step = 0;
  std::int64_t best_step = -1;  ///< step to which best.h5 will point
  format::Retention retention{};
  /// Staging directory on this node in which the file is written first (see staging_folder()); empty: none.
  std::string staging_dir{};
  /// Set until a run has saved once: checkpoints of higher steps in the folder, and files in the staging directory,
  /// belong to trainings that were abandoned for this one. The former are superseded before anything is written, the
  /// latter are removed.
  std::optional<std::int64_t> last_own_step{};
  /// Set once the staging directory has been cleared for this run: files there are then its own, left by a try that
  /// could not be copied. Shared by all saves of the run; used by rank 0's writing thread. Null: each save clears it.
  std::shared_ptr<bool> staging_cleared{};
  /// Called on rank 0's writing thread each time before a name in `folder` is given, changed or removed; an error ends
  /// the write, because another run may have taken the folder during a long save. Empty: no other run can have it.
  std::function<Result<void>()> check_ownership{};
};

/// Writes `content` as <folder>/step-<step>.h5 and verifies it (see format::write_checkpoint), and only then removes
/// what the retention does not keep. Checks the free space first, so that a full disk is reported before anything is
/// written. Collective; may be called again after a failure.
///
/// Errors: those of format::write_checkpoint and of `check_ownership`; CannotCreate and InputOutput also if the folder
/// cannot be created or is too full. The checkpoints in the folder are unchanged then.
[[nodiscard]] Result<void> commit(const Destination& destination, const format::Content& content,
                                  const format::WriterOptions& options, format::RankGroup& group);

// A staging directory is a folder on this node, as fast as memory, in which a checkpoint is written and verified before
// it is copied to its folder. It counts as saved only there. States after a crash:
//
//   staged temporary            nothing was saved; the next write to the staging directory removes it
//   staged file, no copy        not saved yet, but whole: publish_left_over() completes it, on this node
//   staged file, partial copy   the same; the partial copy has a temporary name and is removed as such
//   staged file and whole copy  saved; publish_left_over() removes the staged file
//
// A file that could not be copied stays there until the next one is whole.

/// Returns the folder below `stage` for checkpoints that go to `folder`: a different one for each such folder and user.
[[nodiscard]] std::string staging_folder(const std::string& stage, const std::string& folder);

/// Copies the verified file step-<step>.h5 of the folder `staged` to `folder` under a temporary name, syncs it to the
/// device, reads it back and compares its checksums, renames it if `check_ownership` agrees (see Destination), and
/// removes the staged file. Errors (InputOutput, CannotCreate; those of `check_ownership`): the file is still staged,
/// and `folder` is unchanged.
[[nodiscard]] Result<void> publish(const std::string& staged, const std::string& folder, std::int64_t step,
                                   const std::function<Result<void>()>& check_ownership = {});

/// The fate of the files that a run left in its staging directory.
struct LeftOver {
  std::optional<std::int64_t> step;         ///< step that was published
  std::optional<std::int64_t> passed_over;  ///< step that stays in the staging directory until the next save there
};

/// Publishes the newest sound checkpoint that a killed run left in `staged`, if its step is higher than all steps of
/// this user in `folder`. If the newest of those was written later, although its step is lower, another run has resumed
/// from an earlier step; the left-over file is then passed over. Removes the other files. Errors: those of publish().
[[nodiscard]] Result<LeftOver> publish_left_over(const std::string& staged, const std::string& folder);

/// Removes what a run that is not resumed left in `staged`.
void discard_left_over(const std::string& staged);

}  // namespace rollcall::checkpoint::background
