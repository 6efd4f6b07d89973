#pragma once

#include <string>
#include <vector>

#include "runtime/resolve/resolve.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::storage {

/// What speaks against a folder.
struct FolderObjection {
  std::string reason;      ///< why it cannot be used, a clause: "/tmp/me belongs to user 1001"; empty: it can
  bool only_here = false;  ///< most likely a matter of this node alone: somebody else's doing in its /tmp, say
  std::string caution;     ///< what its user should know of a folder that can be used; empty: nothing
};

/// Makes the folder `path` (absolute) and what is missing above it, for this process's user, and checks that it can be
/// used: empty `reason`.
///
/// Below a folder that everybody may write to (/tmp, /dev/shm) anybody could have made a folder of a name that is easy
/// to guess, and would then own what this user runs from it. There each folder is made with mode 0700, and one that
/// exists is used only if it is no link, belongs to this user or root, and nobody else may write to it; nothing is used
/// where that folder is not sticky, since whoever may write to it could put a folder of their own in the place of one
/// that was looked at. Below a folder that a group may write to, a project's, what is made has mode 0700 too, and what
/// exists must belong to this user or root, links as well; where it is not sticky the members have the same power,
/// which is a caution only: such folders are common, and their members have been chosen. A group numbered as the user
/// is taken for the user's private one. Elsewhere mode 0755 less the user's umask holds, and links are followed. Opens
/// nothing for writing. Thread-safe; two processes may do it at once.
[[nodiscard]] FolderObjection make_own_folder(const std::string& path);

/// A cache variable that is not set after all, since its folder cannot be used.
struct RefusedCache {
  std::string variable;
  std::string warning;     ///< without the "rollcall:" prefix
  bool only_here = false;  ///< as FolderObjection has it
};

struct CacheFolders {
  std::vector<RefusedCache> refused;
  std::vector<std::string> cautions;  ///< warnings of caches that are set all the same; the same folder's once
};

/// Makes the folders of the caches that `patch` sets (make_own_folder), as this process's user, and says which of them
/// must be left alone. In the task itself: /tmp may be its own.
[[nodiscard]] CacheFolders make_cache_folders(const resolve::EnvPatch& patch);

/// Takes the refused ones out of a task's patch. The warnings are the caller's to tell.
void leave_out(resolve::EnvPatch& patch, const std::vector<RefusedCache>& refused);

/// For a task that the plugin does not set up: makes the caches' folders, takes those that cannot be used out of
/// `step.patch`, and (rank 0) adds warnings of what their groups could do and of files that the site will soon delete.
/// Never fails.
void prepare_folders(step::ResolvedStep& step, const settings::Settings& settings, const Environment& environment);

}  // namespace rollcall::storage
