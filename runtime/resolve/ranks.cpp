#include <fmt/format.h>

#include <string>

#include "runtime/contract/env_vars.h"
#include "runtime/resolve/groups.h"

namespace rollcall::resolve {
namespace {

/// A wrong rank hangs or corrupts a run silently, so that here a disagreement is no warning.
Result<void> check_users(std::string_view name, std::uint32_t ours, const Inputs& inputs, const PatchBuilder& patch) {
  const std::optional<std::string> value = patch.users(name);
  if (!value || *value == std::to_string(ours)) {
    return {};
  }
  return fail(std::string(name), *value, fmt::format("contradicts the step: {} says {}", inputs.facts.source, ours),
              fmt::format("unset {} before srun", name), ExitCode::Mismatch);
}

}  // namespace

Result<void> add_ranks(const Inputs& inputs, PatchBuilder& patch) {
  const job::JobFacts& facts = inputs.facts;
  for (const auto& [name, value] : {std::pair{env::kRank, facts.rank}, std::pair{env::kWorldSize, facts.world_size}}) {
    if (Result<void> checked = check_users(name, value, inputs, patch); !checked) {
      return checked;
    }
  }
  const std::string on_node = facts.this_host.empty() ? "on its node" : "on " + facts.this_host;
  const auto add = [&](std::string_view name, std::uint32_t value, std::string reason) {
    patch.propose({name, std::to_string(value), facts.source, std::move(reason)});
  };
  add(env::kRank, facts.rank, fmt::format("task {} of {}", facts.rank, facts.world_size));
  add(env::kWorldSize, facts.world_size,
      fmt::format("tasks of the step on {} node{}", facts.num_nodes, facts.num_nodes == 1 ? "" : "s"));
  add(env::kLocalRank, facts.local_rank,
      fmt::format("task {} of {} {}", facts.local_rank, facts.local_world_size, on_node));
  add(env::kLocalWorldSize, facts.local_world_size, fmt::format("tasks of the step {}", on_node));
  add(env::kGroupRank, facts.node_rank, fmt::format("node {} of {}", facts.node_rank, facts.num_nodes));
  add(env::kNodeRank, facts.node_rank, fmt::format("node {} of {}", facts.node_rank, facts.num_nodes));
  return {};
}

}  // namespace rollcall::resolve
