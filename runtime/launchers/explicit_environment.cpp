#include "runtime/launchers/launcher.h"

#include <fmt/format.h>

#include <algorithm>

#include <array>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/marker.h"

namespace rollcall::launchers {
namespace {

/// Returns a value that the user or torchrun set. torchrun sets all of its variables, perhaps to the same values as an
/// enclosing rollcall, so that the marker is ignored under torchrun.
std::optional<std::string> explicit_value(const Environment& environment, std::string_view name) {
  const bool under_torchrun = environment.get_non_empty(env::kTorchElasticRunId).has_value();
  return under_torchrun ? environment.get_non_empty(name) : job::set_by_user(environment, name);
}

/// Reads a number below `limit`; `otherwise` where the variable is unset or was set by another rollcall.
Result<std::uint32_t> number(const Environment& environment, std::string_view name, std::uint32_t limit,
                             std::uint32_t otherwise) {
  const std::optional<std::string> text = explicit_value(environment, name);
  if (!text) {
    return otherwise;
  }
  const auto value = parse_integer<std::uint32_t>(*text);
  if (!value || *value >= limit) {
    return fail(std::string(name), *text, fmt::format("must be a number below {}", limit),
                fmt::format("unsetting {}", name), ErrorKind::Mismatch);
  }
  return *value;
}

/// Returns a hash of the values that all ranks of a run share and other runs may not: torchrun's run id and the port. 0
/// where neither is set. MASTER_ADDR is left out, because rank 0's host may have another name for itself, and so is
/// torchrun's restart count, which may differ between its agents.
std::uint32_t salt_of(const Environment& environment) {
  const auto run = environment.get_non_empty(env::kTorchElasticRunId);
  const auto port = explicit_value(environment, env::kMasterPort);
  return run || port ? job::fnv1a(run.value_or("") + "\n" + port.value_or("")) : 0;
}

}  // namespace

std::optional<std::string> why_not_explicit(const Environment& environment) {
  for (const std::string_view name : {env::kRank, env::kWorldSize}) {
    if (!explicit_value(environment, name)) {
      return fmt::format("{} is not set by the user", name);
    }
  }
  return std::nullopt;
}

Result<job::JobFacts> facts_from_environment(const Environment& environment) {
  constexpr std::uint32_t kAnyNumber = 0xffffffff;
  job::JobFacts facts;
  facts.source = "environment";
  const auto world = number(environment, env::kWorldSize, kAnyNumber, 1);
  if (!world || *world == 0) {
    return world ? fail("WORLD_SIZE", "0", "must be at least 1", "unsetting WORLD_SIZE", ErrorKind::Mismatch)
                 : world.error();
  }
  facts.world_size = *world;
  const auto local_world = number(environment, env::kLocalWorldSize, facts.world_size + 1, facts.world_size);
  if (!local_world || *local_world == 0) {
    return local_world ? fail("LOCAL_WORLD_SIZE", "0", "must be at least 1", "unsetting it", ErrorKind::Mismatch)
                       : local_world.error();
  }
  facts.local_world_size = *local_world;
  facts.num_nodes = (facts.world_size + facts.local_world_size - 1) / facts.local_world_size;
  ASSIGN_OR_RETURN(const auto rank, number(environment, env::kRank, facts.world_size, 0));
  facts.rank = rank;
  ASSIGN_OR_RETURN(const auto local_rank,
                   number(environment, env::kLocalRank, facts.local_world_size, facts.rank % facts.local_world_size));
  facts.local_rank = local_rank;
  const std::string_view node_name = explicit_value(environment, env::kGroupRank) ? env::kGroupRank : env::kNodeRank;
  ASSIGN_OR_RETURN(const auto node,
                   number(environment, node_name, facts.world_size, facts.rank / facts.local_world_size));
  facts.node_rank = node;
  facts.port_salt = salt_of(environment);
  facts.num_nodes = std::max(facts.num_nodes, facts.node_rank + 1);  // nodes may have different numbers of ranks
  return facts;
}

}  // namespace rollcall::launchers
