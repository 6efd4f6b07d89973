#include "runtime/step/resolved_step.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/job_facts.h"
#include "runtime/job/marker.h"

namespace rollcall::step {
namespace {

/// Returns the number that an enclosing rollcall set, where it is unchanged.
std::optional<std::uint32_t> marked_number(const Environment& environment, std::string_view name) {
  const std::string value = environment.get(name).value_or("");
  return job::is_marked(job::marker_of(environment), name, value) ? parse_integer<std::uint32_t>(value) : std::nullopt;
}

/// Returns the facts of the enclosing rollcall's world where that is smaller than the step. Hosts are unknown; its
/// MASTER_ADDR names rank 0's.
std::optional<job::JobFacts> enclosing_component(const Environment& environment, const job::JobFacts& step) {
  const auto rank = marked_number(environment, env::kRank);
  const auto world = marked_number(environment, env::kWorldSize);
  const auto node = marked_number(environment, env::kNodeRank);
  const bool same_step = environment.get(env::kStep) == job::step_name(step);
  const bool smaller = step.het && same_step && rank && world && node && *world < step.world_size && *rank < *world &&
                       *rank <= step.rank && step.local_world_size <= *world;
  if (!smaller) {
    return std::nullopt;
  }
  job::JobFacts facts = step;
  facts.first_rank = step.rank - *rank;
  facts.first_rank_here -= std::min(facts.first_rank_here, facts.first_rank);
  facts.rank = *rank;
  facts.world_size = *world;
  facts.node_rank = *node;
  facts.num_nodes = *world == facts.local_world_size ? 1 : std::max(2U, *node + 1);
  facts.hosts.clear();
  facts.tasks_per_node.clear();
  facts.head_host.clear();
  return facts;
}

template <typename T>
std::vector<T> slice(const std::vector<T>& all, std::uint32_t first, std::uint32_t count) {
  return {all.begin() + first, all.begin() + first + count};
}

std::uint32_t sum(const std::vector<std::uint32_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::uint32_t{0});
}

/// Restricts the facts of a het step to the task's component, whose ranks and nodes then count from 0. Other steps stay
/// unchanged. Idempotent. Error (Usage, setting world): the nodes of the components are unknown. Pure.
Result<void> restrict_to_component(job::JobFacts& facts) {
  if (!facts.het) {
    return {};
  }
  if (facts.component_nodes.empty()) {
    return fail("world", "component", "no environment variable names the nodes of each component",
                "srun --ddp=world=component, or salloc or sbatch with srun --het-group inside");
  }
  std::uint32_t index = 0;
  std::uint32_t first_node = 0;
  while (facts.node_rank >= first_node + facts.component_nodes[index]) {
    first_node += facts.component_nodes[index++];
  }
  const bool head_is_first = facts.head_host == facts.hosts.front();
  const std::uint32_t first_rank = sum(slice(facts.tasks_per_node, 0, first_node));
  facts.num_nodes = facts.component_nodes[index];
  facts.hosts = slice(facts.hosts, first_node, facts.num_nodes);
  facts.tasks_per_node = slice(facts.tasks_per_node, first_node, facts.num_nodes);
  facts.component_nodes = {facts.num_nodes};
  facts.world_size = sum(facts.tasks_per_node);
  facts.rank -= first_rank;
  facts.first_rank_here -= std::min(facts.first_rank_here, first_rank);
  facts.node_rank -= first_node;
  facts.world_index += index;
  facts.first_rank += first_rank;
  if (index > 0) {
    facts.head_host = head_is_first || facts.num_nodes == 1 ? facts.hosts.front() : "";
    facts.head_known_to_all = !facts.head_host.empty();
  }
  return {};
}

}  // namespace

Result<void> choose_world(const Environment& environment, const settings::LaunchSettings& settings,
                          job::JobFacts& facts) {
  const bool wanted = settings.component_worlds;
  const std::optional<job::JobFacts> enclosing = enclosing_component(environment, facts);
  if (enclosing && facts.component_nodes.empty()) {
    facts = *enclosing;
    return {};
  }
  return wanted || enclosing ? restrict_to_component(facts) : Result<void>{};
}

}  // namespace rollcall::step
