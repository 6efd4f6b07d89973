#include "spank_plugin/layout.h"

#include <slurm/slurm.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

// Weak: a Slurm that lacks one of these still loads the plugin.
#pragma weak slurm_job_step_layout_get
#pragma weak slurm_job_step_layout_free
#pragma weak slurm_load_node_single
#pragma weak slurm_free_node_info_msg

namespace rollcall::spank {
namespace {

std::uint32_t node_of_rank_0(const slurm_step_layout_t& layout) {
  for (std::uint32_t node = 0; node < layout.node_cnt; ++node) {
    const std::uint32_t* const begin = layout.tids[node];
    const std::uint32_t* const end = begin + layout.tasks[node];
    if (std::find(begin, end, 0U) != end) {
      return node;
    }
  }
  return layout.node_cnt;
}

}  // namespace

bool append_layout(const char* question, Buffer& answer) {
  if (slurm_job_step_layout_get == nullptr || slurm_job_step_layout_free == nullptr) {
    return false;
  }
  char* rest = nullptr;
  slurm_step_id_t id{};
  id.job_id = static_cast<std::uint32_t>(std::strtoul(question, &rest, 10));
  id.step_id = static_cast<std::uint32_t>(std::strtoul(rest, nullptr, 10));
  id.step_het_comp = NO_VAL;
  slurm_step_layout_t* const layout = slurm_job_step_layout_get(&id);
  if (layout == nullptr) {
    return false;
  }
  answer.append(layout->node_list);
  answer.append(" ");
  answer.append(node_of_rank_0(*layout));
  for (std::uint32_t node = 0; node < layout->node_cnt; ++node) {
    answer.append(" ");
    answer.append(std::uint32_t{layout->tasks[node]});
  }
  slurm_job_step_layout_free(layout);
  return answer.ok();
}

bool append_node_address(const char* node, Buffer& answer) {
  node_info_msg_t* found = nullptr;
  if (slurm_load_node_single == nullptr || slurm_free_node_info_msg == nullptr ||
      slurm_load_node_single(&found, const_cast<char*>(node), SHOW_ALL) != SLURM_SUCCESS) {
    return false;
  }
  const bool known = found->record_count > 0 && found->node_array[0].node_addr != nullptr;
  if (known) {
    answer.append(found->node_array[0].node_addr);
  }
  slurm_free_node_info_msg(found);
  return known && answer.ok();
}

}  // namespace rollcall::spank
