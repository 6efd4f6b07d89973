#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::storage {

/// What speaks against a folder.
struct FolderObjection {
  std::string reason;      ///< why it cannot be used, a clause: "/tmp/me belongs to user 1001"; empty: it can
  bool only_here = false;  ///< most likely a matter of this node alone: somebody else's doing in its /tmp, say
  std::string caution;     ///< what its user should know of a folder that can be used; empty: nothing

  friend bool operator==(const FolderObjection&, const FolderObjection&) = default;
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
/// is taken for the user's private one. Elsewhere mode 0755 less the user's umask holds, and links are followed. To the
/// folder itself, where it exists, nobody else may write wherever it lies; that a group may is a caution again. Opens
/// nothing for writing. Thread-safe; two processes may do it at once.
[[nodiscard]] FolderObjection make_own_folder(const std::string& path);

/// Makes the folders of the caches that a task's patch sets (make_own_folder), as this process's user, takes those that
/// cannot be used out of `patch`, and adds warnings: of those, of what a cache's group could do, and (rank 0) of files
/// that the site will soon delete. In the task itself: /tmp may be its own. Error (NoInput, of this node): the
/// setting's virtual environment has no Python here, so that the program would run with another one.
[[nodiscard]] Result<void> prepare_folders(const job::JobFacts& facts, resolve::EnvPatch& patch,
                                           const settings::LaunchSettings& settings, const Environment& environment);

}  // namespace rollcall::storage
