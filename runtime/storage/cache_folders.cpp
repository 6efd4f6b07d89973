#include "runtime/storage/cache_folders.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/resolve/caches.h"
#include "runtime/storage/own_folder.h"

namespace rollcall::storage {

std::vector<RefusedCache> make_cache_folders(const resolve::EnvPatch& patch) {
  std::vector<RefusedCache> refused;
  for (const resolve::EnvChange& change : patch.changes) {
    if (change.action != resolve::Action::Set || resolve::find_cache(change.name) == nullptr) {
      continue;
    }
    if (const FolderObjection objection = make_own_folder(change.value); !objection.reason.empty()) {
      refused.push_back(
          {change.name,
           fmt::format("{}: {}: {}; the cache is left where it was", change.name, change.value, objection.reason),
           objection.foreign});
    }
  }
  return refused;
}

void leave_out(resolve::EnvPatch& patch, const std::vector<RefusedCache>& refused) {
  for (resolve::EnvChange& change : patch.changes) {
    const auto same = [&](const RefusedCache& cache) { return cache.variable == change.name; };
    if (change.action == resolve::Action::Set && std::ranges::any_of(refused, same)) {
      // Unset, not forgotten: the value of an enclosing rollcall must not come through.
      change.action = resolve::Action::Unset;
      change.value.clear();
      change.reason = "its folder cannot be used";
    }
  }
}

}  // namespace rollcall::storage
