#include "runtime/bootstrap/world.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/marker.h"
#include "runtime/job/step_layout.h"

namespace rollcall::bootstrap {
namespace {

/// What an enclosing rollcall gave to `name`, where it is as it was.
std::optional<std::uint32_t> marked_number(const Environment& environment, std::string_view name) {
  const std::string value = environment.get(name).value_or("");
  return job::is_marked(job::marker_of(environment), name, value) ? parse_integer<std::uint32_t>(value) : std::nullopt;
}

/// The enclosing rollcall's smaller world in this step; hosts stay unknown, its MASTER_ADDR says where rank 0 is.
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
  facts.rank = *rank;
  facts.world_size = *world;
  facts.node_rank = *node;
  facts.num_nodes = *world == facts.local_world_size ? 1 : std::max(2U, *node + 1);
  facts.hosts.clear();
  facts.tasks_per_node.clear();
  facts.head_host.clear();
  return facts;
}

}  // namespace

Result<void> choose_world(const Environment& environment, const settings::Settings& settings, job::JobFacts& facts) {
  const bool wanted = settings.text("world") == "component";
  const std::optional<job::JobFacts> enclosing = enclosing_component(environment, facts);
  if (enclosing && facts.component_nodes.empty()) {
    facts = *enclosing;
    return {};
  }
  return wanted || enclosing ? job::restrict_to_component(facts) : Result<void>{};
}

}  // namespace rollcall::bootstrap
