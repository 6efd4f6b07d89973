#pragma once

#include <string>
#include <string_view>

#include "trainer/checkpoint/format/reader.h"

namespace rollcall::checkpoint::format {

/// What a file in a folder of checkpoints is: every state in which a crash, a full disk or damage can leave one.
/// docs/checkpoint_format.md tells how each comes about and what to do.
enum class FileState {
  Committed,   ///< has its name and is sound
  Writing,     ///< a temporary file whose writer may still be at it
  Unfinished,  ///< a temporary file without a seal: its writer died before all bytes were there
  Unnamed,     ///< a temporary file with its seal: its writer died before it gave it its name
  Damaged,     ///< has the name of a checkpoint and is not sound
  SetAside,    ///< was found damaged when a run was resumed
  Superseded,  ///< of a run that was abandoned for another one
  Newer,       ///< of a newer format than this program reads
  Unreadable,  ///< the system refuses to read it
  Foreign,     ///< something else
};

/// "committed", "unfinished" ... as programs print them.
[[nodiscard]] std::string_view state_name(FileState state);

struct FileStatus {
  FileState state = FileState::Foreign;
  std::string reason;  ///< why a file is damaged or cannot be read; else empty
};

/// Looks at a file's name, and at its content: as much as `level` tells of files that have a checkpoint's name, the
/// seal of others. Symbolic links and files of other names (best.h5, exported ones) are judged by their content alone.
[[nodiscard]] FileStatus examine(const std::string& path, VerifyLevel level);

}  // namespace rollcall::checkpoint::format
