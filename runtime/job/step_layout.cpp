#include "runtime/job/step_layout.h"

#include <numeric>

namespace rollcall::job {
namespace {

template <typename T>
std::vector<T> slice(const std::vector<T>& all, std::uint32_t first, std::uint32_t count) {
  return {all.begin() + first, all.begin() + first + count};
}

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

Result<void> restrict_to_component(JobFacts& facts) {
  if (!facts.het) {
    return {};
  }
  if (facts.component_nodes.empty()) {
    return fail("world", "component", "nothing in this task's environment says which nodes are which component's",
                "srun --ddp=world=component, or salloc or sbatch and srun --het-group inside");
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
  facts.node_rank -= first_node;
  facts.world_index += index;
  facts.first_rank += first_rank;
  if (index > 0) {
    facts.head_host = head_is_first || facts.num_nodes == 1 ? facts.hosts.front() : "";
    facts.head_known_to_all = !facts.head_host.empty();
  }
  return {};
}

}  // namespace rollcall::job
