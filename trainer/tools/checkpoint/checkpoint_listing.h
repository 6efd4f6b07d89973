#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/file_state.h"
#include "trainer/checkpoint/format/retention.h"

namespace rollcall::checkpoint_tool {

/// A directory entry, the same one as long as nobody puts another file in its place; of a symbolic link the link
/// itself.
struct DirectoryEntry {
  std::uint64_t inode = 0;
  std::int64_t modified = 0;  ///< nanoseconds since 1970
  std::uint64_t links = 0;    ///< names of the same file
  bool is_regular = false;    ///< no symbolic link, folder or pipe
  std::uint32_t owner = 0;    ///< the user's number
  bool is_own = false;        ///< this user's or root's (rollcall::is_own())

  /// Nothing where there is none, or where the system does not tell.
  [[nodiscard]] static std::optional<DirectoryEntry> at(const std::string& path);
  [[nodiscard]] bool is_same_file_as(const DirectoryEntry& other) const {
    return inode == other.inode && modified == other.modified && is_regular == other.is_regular;
  }
};

/// A file in a folder of checkpoints, as `ls` shows it: its metadata were checked, its tensors not.
struct ListedFile {
  std::string path;
  DirectoryEntry entry;  ///< as it was before the file was looked at
  checkpoint::format::FileState state = checkpoint::format::FileState::Foreign;
  std::string reason;  ///< why it is damaged or unreadable
  std::uint64_t bytes = 0;
  std::string created;  ///< ISO 8601, UTC; empty where the file does not tell
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> epoch;
  std::optional<double> best_metric;           ///< highest of the run until then
  std::vector<checkpoint::format::Best> best;  ///< the best validations that it tells of
  bool is_best = false;                        ///< best.h5 points to it
};

/// A file, or of a folder all checkpoints, what became of them and what was to become one (newest first), and further
/// files whose names end in ".h5". Errors: NoInput where `path` is not there or cannot be listed.
[[nodiscard]] Result<std::vector<ListedFile>> list_files(const std::string& path);

}  // namespace rollcall::checkpoint_tool
