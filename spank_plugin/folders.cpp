#include "spank_plugin/folders.h"

#include "runtime/resolve/caches.h"
#include "runtime/resolve/resolve.h"
#include "runtime/storage/purge_age.h"

namespace rollcall::spank {

FoldersOnNode prepare_folders(const job::JobFacts& first, const settings::Settings& settings,
                              const network::NetworkView& network, const Environment& user) {
  FoldersOnNode folders;
  // The patch of the first task names the same caches as those of the others; its other parts are not wanted here.
  if (resolve::caches_configured(settings)) {
    if (const auto patch = resolve::resolve(first, settings, network, user, 1)) {
      folders.refused = storage::make_cache_folders(*patch);
    }
  }
  if (first.node_rank == 0) {
    folders.purge_warning = storage::purge_warning(settings, user, storage::kAtLaunch);
  }
  return folders;
}

std::vector<std::string> warnings_about(const FoldersOnNode& folders, const job::JobFacts& task) {
  std::vector<std::string> warnings;
  for (const storage::RefusedCache& cache : folders.refused) {
    if (task.rank == 0 || (task.local_rank == 0 && cache.only_here)) {
      warnings.push_back(cache.warning);
    }
  }
  if (task.rank == 0 && folders.purge_warning) {
    warnings.push_back(*folders.purge_warning);
  }
  return warnings;
}

}  // namespace rollcall::spank
