#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/checkpoint/format/reader.h"

namespace rollcall::checkpoint::format {

/// The kinds of file names in a folder of checkpoints.
enum class NameKind {
  Checkpoint,  ///< "step-00000123.h5"
  SetAside,    ///< "step-00000123.h5.damaged": was found damaged
  Superseded,  ///< "step-00000123.h5.superseded": of an abandoned training
  Temporary,   ///< "step-00000123.h5.tmp-HOST-PID": being written, or its writer died
};

struct FileName {
  NameKind kind = NameKind::Checkpoint;
  std::int64_t step = 0;    ///< steps of all epochs done when it was saved
  std::string writer_host;  ///< of temporary files; host names may contain '-'
  pid_t writer_pid = 0;
};

inline constexpr std::string_view kDamagedEnding = ".damaged";
inline constexpr std::string_view kSupersededEnding = ".superseded";

/// Returns "step-00000123.h5".
[[nodiscard]] std::string checkpoint_name(std::int64_t step);

/// Parses a name without folder; nothing for other names.
[[nodiscard]] std::optional<FileName> parse_file_name(std::string_view name);

/// Returns the name of the file that this process writes before it renames it to `path`: "<path>.tmp-<host>-<pid>".
[[nodiscard]] std::string temporary_name(const std::string& path);

/// Returns whether the process that writes `path` is dead, as far as can be determined: on this host if the process
/// does not exist, on another host if it has not written for a day.
[[nodiscard]] bool writer_is_dead(const FileName& name, const std::string& path);

/// The state of a file in a folder of checkpoints: every state in which a crash, a full disk or damage can leave it.
/// docs/reference/checkpoint_format.md describes how each arises and what to do.
enum class FileState {
  Committed,   ///< has its name and is sound
  Writing,     ///< a temporary file whose writer may still be active
  Unfinished,  ///< a temporary file without a commit header: its writer died before all bytes were written
  Unnamed,     ///< a temporary file with its commit header: its writer died before it renamed it
  Damaged,     ///< has the name of a checkpoint and is not sound
  SetAside,    ///< was found damaged when a run was resumed
  Superseded,  ///< of an abandoned training
  Newer,       ///< of a newer format than this program reads
  Unreadable,  ///< the system refuses to read it
  Foreign,     ///< something else
};

/// Returns "committed", "unfinished" ... as programs print them.
[[nodiscard]] std::string_view state_name(FileState state);

struct FileStatus {
  FileState state = FileState::Foreign;
  std::string reason;  ///< why a file is damaged or unreadable; else empty
};

/// Examines a file's name and content: to the extent of `level` for files with a checkpoint's name, and the commit
/// header of temporary files. Symbolic links and files of other names (best.h5, exported ones) are judged by their
/// content alone.
[[nodiscard]] FileStatus examine(const std::string& path, VerifyLevel level);

}  // namespace rollcall::checkpoint::format
