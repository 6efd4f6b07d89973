#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::checkpoint::background {

/// A folder on this node, as fast as memory, in which a checkpoint is written and verified before it is copied to the
/// folder of the checkpoints. It counts as saved only when it is there. States after a crash:
///
///   staged temporary            nothing was saved; the next write to the stage removes it
///   staged file, no copy        not saved yet, but whole: publish_left_over() finishes it, on this node
///   staged file, partial copy   the same; the partial copy has a temporary's name, and is removed as such
///   staged file and whole copy  saved; publish_left_over() removes the staged one

/// The stage's own folder below `stage` for checkpoints that go to `folder`: another one for each such folder and user.
[[nodiscard]] std::string stage_folder(const std::string& stage, const std::string& folder);

/// Copies the verified file step-<step>.h5 of the folder `staged` to `folder`: beside its name first, to the device,
/// read back and compared with its checksums, then renamed; removes the staged one. Errors (InputOutput,
/// CannotCreate): it is still staged, and `folder` as it was.
[[nodiscard]] Result<void> publish(const std::string& staged, const std::string& folder, std::int64_t step);

/// Publishes what a run that was killed left in `staged`: its newest sound checkpoint, if it is newer than all in
/// `folder`. Gives its step, or nothing. Removes the others. Errors: those of publish().
[[nodiscard]] Result<std::optional<std::int64_t>> publish_left_over(const std::string& staged,
                                                                    const std::string& folder);

/// Removes what a run that is not to be continued left in `staged`.
void discard_left_over(const std::string& staged);

}  // namespace rollcall::checkpoint::background
