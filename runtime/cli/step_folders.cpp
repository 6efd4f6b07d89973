#include "runtime/cli/step_folders.h"

#include "runtime/storage/cache_folders.h"
#include "runtime/storage/purge_age.h"

namespace rollcall::cli {

void prepare_folders(rendezvous::ResolvedStep& step, const settings::Settings& settings,
                     const Environment& environment) {
  const std::vector<storage::RefusedCache> refused = storage::make_cache_folders(step.patch);
  storage::leave_out(step.patch, refused);
  for (const storage::RefusedCache& cache : refused) {
    step.patch.warnings.push_back(cache.warning);
  }
  if (step.facts.rank == 0) {
    if (const auto warning = storage::purge_warning(settings, environment, storage::kAtLaunch)) {
      step.patch.warnings.push_back(*warning);
    }
  }
}

}  // namespace rollcall::cli
