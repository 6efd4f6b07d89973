#include "runtime/resolve/resolve.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/resolve/patch_builder.h"

namespace rollcall::resolve {

Result<EnvPatch> resolve(const job::JobFacts& facts, const settings::LaunchSettings& settings,
                         const network::NetworkView& network, const Environment& user, std::uint32_t cpus_of_task) {
  const Inputs inputs{facts, settings, network, user, cpus_of_task};
  PatchBuilder patch(facts, settings, user);
  if (!settings.given.site_doubt().empty()) {
    patch.warn(fmt::format("site profile: srun --ddp may take another: {}", settings.given.site_doubt()));
  }
  for (const auto add : {add_ranks, add_master_address, add_master_port, add_interfaces, add_torchrun, add_threads,
                         add_gpus, add_accelerate, add_jax, add_caches, add_venv, add_debug, add_variables}) {
    RETURN_IF_ERROR(add(inputs, patch));
  }
  return std::move(patch).finish();
}

const EnvChange* EnvPatch::find(std::string_view name) const {
  for (const EnvChange& change : changes) {
    if (change.name == name) {
      return &change;
    }
  }
  return nullptr;
}

std::vector<std::string> EnvPatch::all_warnings() const {
  std::vector<std::string> all = warnings;
  all.insert(all.end(), node_warnings.begin(), node_warnings.end());
  all.insert(all.end(), task_warnings.begin(), task_warnings.end());
  return all;
}

Environment apply(const EnvPatch& patch, Environment environment) {
  for (const EnvChange& change : patch.changes) {
    if (change.action == Action::Set) {
      environment.set(change.name, change.value);
    } else if (change.action == Action::Unset) {
      environment.unset(change.name);
    }
  }
  return environment;
}

}  // namespace rollcall::resolve
