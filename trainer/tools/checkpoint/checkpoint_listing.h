#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/file_state.h"
#include "trainer/checkpoint/format/retention.h"

namespace rollcall::checkpoint_tool {

/// A directory entry, for recognising that another file has replaced it. For a symbolic link it describes the link
/// itself.
struct DirectoryEntry {
  std::uint64_t inode = 0;
  std::int64_t modified = 0;  ///< nanoseconds since 1970
  std::uint64_t links = 0;    ///< number of hard links
  bool is_regular = false;    ///< false for symbolic links, folders and pipes
  std::uint32_t owner = 0;    ///< user ID of the owner
  bool is_own = false;        ///< whether it belongs to this user or root (rollcall::is_own())

  /// Returns nothing if there is no entry or stat(2) fails.
  [[nodiscard]] static std::optional<DirectoryEntry> at(const std::string& path);
  [[nodiscard]] bool is_same_file_as(const DirectoryEntry& other) const {
    return inode == other.inode && modified == other.modified && is_regular == other.is_regular;
  }
};

/// A file in a folder of checkpoints, as `ls` shows it. Its metadata were checked, its tensors were not.
struct ListedFile {
  std::string path;
  DirectoryEntry entry;  ///< the entry before the file was read
  checkpoint::format::FileState state = checkpoint::format::FileState::Foreign;
  std::string reason;  ///< why it is damaged or unreadable; else empty
  std::uint64_t bytes = 0;
  std::string created;  ///< ISO 8601, UTC; empty if the file does not contain it
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> epoch;
  std::optional<double> best_metric;           ///< highest metric of the run until then
  std::vector<checkpoint::format::Best> best;  ///< the best validations that the file records
  bool is_best = false;                        ///< best.h5 points to it
};

/// Lists a file, or all files of a folder: checkpoints and temporary files of checkpoints (newest first), and other
/// files whose names end in ".h5". Errors: NoInput: `path` does not exist or cannot be listed.
[[nodiscard]] Result<std::vector<ListedFile>> list_files(const std::string& path);

}  // namespace rollcall::checkpoint_tool
