#pragma once

#include <string>
#include <vector>

#include "runtime/resolve/env_patch.h"

namespace rollcall::storage {

/// A cache variable that is not set after all, since its folder cannot be used.
struct RefusedCache {
  std::string variable;
  std::string warning;     ///< without the "rollcall:" prefix
  bool only_here = false;  ///< most likely a matter of this node alone: somebody else's folder is in the way
};

/// Makes the folders of the caches that `patch` sets (make_own_folder), as this process's user, and says which of them
/// must be left alone. Once per node and step is enough.
[[nodiscard]] std::vector<RefusedCache> make_cache_folders(const resolve::EnvPatch& patch);

/// Takes the refused ones out of a task's patch. The warnings are the caller's to tell.
void leave_out(resolve::EnvPatch& patch, const std::vector<RefusedCache>& refused);

}  // namespace rollcall::storage
