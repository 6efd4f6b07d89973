#include "runtime/resolve/resolve.h"

#include <utility>

#include "runtime/resolve/groups.h"
#include "runtime/resolve/patch_builder.h"

namespace rollcall::resolve {

Result<EnvPatch> resolve(const job::JobFacts& facts, const settings::Settings& settings,
                         const network::NetworkView& network, const Environment& user, std::uint32_t cpus_of_task) {
  const Inputs inputs{facts, settings, network, user, cpus_of_task};
  PatchBuilder patch(facts, settings, user);
  for (const auto add : {add_ranks, add_master, add_interfaces, add_torchrun, add_threads, add_gpus, add_jax,
                         add_caches, add_venv, add_debug, add_variables}) {
    if (const Result<void> added = add(inputs, patch); !added) {
      return added.error();
    }
  }
  return std::move(patch).finish();
}

}  // namespace rollcall::resolve
