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

/// Where a checkpoint goes, and what becomes of the others there.
struct Destination {
  std::string folder;
  std::int64_t step = 0;
  std::int64_t best_step = -1;  ///< to which best.h5 is to point
  format::Retention retention{};
  std::string stage{};  ///< folder of this node in which the file is made first (see stage_folder()); empty: none
  /// Until a run has saved once: the folder's checkpoints of higher steps, and what lies in the stage, are of trainings
  /// that were given up for this one. The former are superseded before anything is written, the latter goes.
  std::optional<std::int64_t> line_begins_at{};
  /// Set once the stage has been cleared for this run: what lies there from then on is its own, a try that could not be
  /// copied. Shared by all its saves; the writing thread's of rank 0. Empty: it is cleared by each save.
  std::shared_ptr<bool> stage_cleared{};
  /// Asked on rank 0, on the writing thread, each time before a name in `folder` is given, changed or removed; an error
  /// ends the write. A save may take so long that another run has the folder by then. Empty: nobody else can have it.
  std::function<Result<void>()> is_ours{};
};

/// Writes `content` as <folder>/step-<step>.h5, verified (see format::write_checkpoint); only then drops what the
/// retention does not keep. Looks for room first: a full disk is told before anything is written. Collective; may be
/// called again after a failure.
///
/// Errors: those of format::write_checkpoint and of `is_ours`; CannotCreate and InputOutput also where the folder
/// cannot be made or is too full. The checkpoints in the folder are as before.
[[nodiscard]] Result<void> commit(const Destination& destination, const format::Content& content,
                                  const format::WriterOptions& options, format::RankGroup& group);

/// A folder on this node, as fast as memory, in which a checkpoint is written and verified before it is copied to the
/// folder of the checkpoints. It counts as saved only when it is there. States after a crash:
///
///   staged temporary            nothing was saved; the next write to the stage removes it
///   staged file, no copy        not saved yet, but whole: publish_left_over() finishes it, on this node
///   staged file, partial copy   the same; the partial copy has a temporary's name, and is removed as such
///   staged file and whole copy  saved; publish_left_over() removes the staged one

///
/// A file that could not be copied stays there until the next one is whole.

/// The stage's own folder below `stage` for checkpoints that go to `folder`: another one for each such folder and user.
[[nodiscard]] std::string stage_folder(const std::string& stage, const std::string& folder);

/// Copies the verified file step-<step>.h5 of the folder `staged` to `folder`: beside its name first, to the device,
/// read back and compared with its checksums, then renamed where `is_ours` agrees (see Destination); removes the staged
/// one. Errors (InputOutput, CannotCreate; those of `is_ours`): it is still staged, and `folder` as it was.
[[nodiscard]] Result<void> publish(const std::string& staged, const std::string& folder, std::int64_t step,
                                   const std::function<Result<void>()>& is_ours = {});

/// What became of that which a run left in its stage.
struct LeftOver {
  std::optional<std::int64_t> step;         ///< was published
  std::optional<std::int64_t> passed_over;  ///< stays in the stage until the next save there
};

/// Publishes what a run that was killed left in `staged`: its newest sound checkpoint, if its step is higher than that
/// of all of this user's in `folder`. Where the newest of these was made later, though its step is lower, another run
/// has gone back behind the one that is left over, which is then passed over. Removes the others. Errors: those of
/// publish().
[[nodiscard]] Result<LeftOver> publish_left_over(const std::string& staged, const std::string& folder);

/// Removes what a run that is not to be continued left in `staged`.
void discard_left_over(const std::string& staged);

}  // namespace rollcall::checkpoint::background
