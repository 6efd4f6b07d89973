#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::storage {

/// The problems of a folder.
struct FolderObjection {
  std::string reason;      ///< a clause that says why it cannot be used: "/tmp/me belongs to user 1001"; empty: it can
  bool only_here = false;  ///< whether other nodes probably do not have the problem, as with another user's /tmp files
  std::string caution;     ///< a warning about a folder that can be used; empty: none

  friend bool operator==(const FolderObjection&, const FolderObjection&) = default;
};

/// Creates the folder `path` (absolute) with its parents for this process's user, and checks that it is safe to use:
/// `reason` is empty.
///
/// The rules depend on the parent folder:
/// - Everybody may write to it (/tmp, /dev/shm): anybody could have created a folder of a known name, and so control
///   the code that this user loads from it. New folders get mode 0700. An existing one must belong to this user or
///   root, must not be a link, and nobody else may write to it. The parent must be sticky, because others could
///   otherwise replace a checked folder.
/// - A group may write to it, as in a project's folder: new folders get mode 0700 too, and existing ones, including
///   links, must belong to this user or root. A missing sticky bit is only a caution, because such folders are common
///   and the members of the group are chosen. A group with the user's number is the user's private one.
/// - Otherwise new folders get mode 0755 minus the umask, and links are followed.
///
/// Nobody else may write to `path` itself; write permission for a group is a caution. Opens no file for writing.
/// Thread-safe; two processes may do it at once.
[[nodiscard]] FolderObjection make_own_folder(const std::string& path);

/// Creates the folders of the caches in a task's patch with make_own_folder(), and removes unusable ones from `patch`.
/// Adds warnings about these, about the groups of caches, and (on rank 0) about files that the site will delete soon.
/// Call it in the task itself, which may have a private /tmp. Error (NoInput, of_this_node): the virtual environment of
/// the setting has no Python on this node, so that the program would run with another one.
[[nodiscard]] Result<void> prepare_folders(const job::JobFacts& facts, resolve::EnvPatch& patch,
                                           const settings::LaunchSettings& settings, const Environment& environment);

}  // namespace rollcall::storage
