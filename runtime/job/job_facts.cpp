#include "runtime/job/job_facts.h"

#include <numeric>

namespace rollcall::job {
namespace {

std::uint32_t sum(const std::vector<std::uint32_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::uint32_t{0});
}

}  // namespace

void adopt_layout(const StepLayout& layout, JobFacts& facts) {
  const bool sizes_agree = layout.hosts.size() == facts.num_nodes && layout.tasks_per_node.size() == facts.num_nodes &&
                           sum(layout.tasks_per_node) == facts.world_size;
  if (!sizes_agree) {
    return;
  }
  facts.hosts = layout.hosts;
  facts.tasks_per_node = layout.tasks_per_node;
  facts.component_nodes = layout.component_nodes;
  if (!layout.head_host.empty()) {
    facts.head_host = layout.head_host;
    facts.head_known_to_all = true;
  }
  facts.local_world_size = layout.tasks_per_node[facts.node_rank];
}

}  // namespace rollcall::job
