#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/checkpoint/format/reader.h"

namespace rollcall::checkpoint::format {

/// What a name in a folder of checkpoints says of its file.
enum class NameKind {
  Checkpoint,  ///< "step-00000123.h5"
  SetAside,    ///< "step-00000123.h5.damaged": was found damaged
  Superseded,  ///< "step-00000123.h5.superseded": of a run that was abandoned for another one
  Temporary,   ///< "step-00000123.h5.tmp-HOST-PID": is being written, or its writer died
};

struct FileName {
  NameKind kind = NameKind::Checkpoint;
  std::int64_t step = 0;    ///< steps (of all epochs) done when it was saved
  std::string writer_host;  ///< of temporaries; host names may hold '-'
  pid_t writer_pid = 0;
};

inline constexpr std::string_view kDamagedEnding = ".damaged";
inline constexpr std::string_view kSupersededEnding = ".superseded";

/// "step-00000123.h5"
[[nodiscard]] std::string checkpoint_name(std::int64_t step);

/// Nothing for names of other things. `name` has no folder.
[[nodiscard]] std::optional<FileName> parse_file_name(std::string_view name);

/// Name of the file that this process writes before it renames it to `path`: "<path>.tmp-<host>-<pid>".
[[nodiscard]] std::string temporary_name(const std::string& path);

/// Whether the process that writes `path`, named so, is dead as far as can be told: on this host if there is no such
/// process, on another if it has not written for a day.
[[nodiscard]] bool writer_is_dead(const FileName& name, const std::string& path);

/// What a file in a folder of checkpoints is: every state in which a crash, a full disk or damage can leave one.
/// docs/reference/checkpoint_format.md tells how each comes about and what to do.
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
