#pragma once

#include <string>

namespace rollcall::storage {

/// Why a folder cannot be used, and whether somebody else's doing on this node is the cause.
struct FolderObjection {
  std::string reason;  ///< a clause: "/tmp/me belongs to user 1001"
  bool foreign = false;
};

/// Makes the folder `path` (absolute) and what is missing above it, for this process's user, and checks that it can be
/// used: empty `reason`.
///
/// Below a folder that everybody may write to (/tmp, /dev/shm) anybody could have made a folder of a name that is easy
/// to guess, and would then own what this user runs from it. There each folder is made with mode 0700, and one that
/// exists is used only if it is no link, belongs to this user or root, and nobody else may write to it. Elsewhere the
/// user's umask holds, and links are followed. Opens nothing for writing. Thread-safe; two processes may do it at once.
[[nodiscard]] FolderObjection make_own_folder(const std::string& path);

}  // namespace rollcall::storage
