#include "runtime/bootstrap/het_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/node_list.h"

namespace rollcall::bootstrap {
namespace {

/// Slurm's own limit of components (MAX_HET_JOB_COMPS) is 128.
constexpr std::uint32_t kMostComponents = 1024;

std::uint32_t number_of_components(const Environment& environment) {
  const auto number = parse_integer<std::uint32_t>(environment.get(env::kSlurmHetSize).value_or(""));
  return std::min(number.value_or(0), kMostComponents);
}

/// The allocation's nodes of one component; none where nothing is said.
std::vector<std::string> nodes_of_component(const Environment& environment, std::uint32_t index) {
  const std::string name = fmt::format("{}{}", env::kSlurmHetNodeList, index);
  Result<std::vector<std::string>> hosts = job::expand_node_list(environment.get(name).value_or(""));
  return hosts ? std::move(*hosts) : std::vector<std::string>{};
}

}  // namespace

std::optional<job::StepLayout> het_layout(const Environment& environment, const job::JobFacts& facts) {
  std::map<std::string, std::uint32_t> tasks_left;
  for (std::size_t node = 0; node < facts.hosts.size(); ++node) {
    tasks_left.emplace(facts.hosts[node], facts.tasks_per_node[node]);
  }
  job::StepLayout layout;
  const std::uint32_t components = number_of_components(environment);
  for (std::uint32_t index = 0; index < components; ++index) {
    const std::size_t before = layout.hosts.size();
    for (std::string& host : nodes_of_component(environment, index)) {
      if (const auto tasks = tasks_left.extract(host)) {
        layout.tasks_per_node.push_back(tasks.mapped());
        layout.hosts.push_back(std::move(host));
      }
    }
    if (layout.hosts.size() > before) {
      layout.component_nodes.push_back(static_cast<std::uint32_t>(layout.hosts.size() - before));
      layout.component_offsets.push_back(index);
    }
  }
  const bool complete = tasks_left.empty() && layout.hosts.size() == facts.num_nodes;
  if (!complete) {
    return std::nullopt;
  }
  layout.head_host = layout.hosts.front();
  return layout;
}

}  // namespace rollcall::bootstrap
