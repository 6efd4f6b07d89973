#include "spank_plugin/layout.h"

#include <slurm/slurm.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

// Weak, so that a Slurm without one of these functions still loads the plugin.
#pragma weak slurm_job_step_layout_get
#pragma weak slurm_job_step_layout_free
#pragma weak slurm_load_node_single
#pragma weak slurm_free_node_info_msg
#pragma weak slurm_hostlist_create
#pragma weak slurm_hostlist_shift
#pragma weak slurm_hostlist_destroy

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

/// Returns the layout of a step, or null where it is unknown.
slurm_step_layout_t* layout_of(std::uint32_t job, std::uint32_t step) {
  if (slurm_job_step_layout_get == nullptr || slurm_job_step_layout_free == nullptr) {
    return nullptr;
  }
  slurm_step_id_t id{};
  id.job_id = job;
  id.step_id = step;
  id.step_het_comp = NO_VAL;
  return slurm_job_step_layout_get(&id);
}

/// Returns a name of a node list, which the caller frees with free(3); null where this Slurm cannot expand the list.
char* name_of_node(const char* list, std::uint32_t index) {
  auto* const names =
      slurm_hostlist_create == nullptr || slurm_hostlist_shift == nullptr || slurm_hostlist_destroy == nullptr
          ? nullptr
          : slurm_hostlist_create(list);
  if (names == nullptr) {
    return nullptr;
  }
  char* name = slurm_hostlist_shift(names);
  for (; index > 0 && name != nullptr; --index) {
    std::free(name);
    name = slurm_hostlist_shift(names);
  }
  slurm_hostlist_destroy(names);
  return name;
}

}  // namespace

bool append_layout(const char* question, Buffer& answer) {
  char* rest = nullptr;
  const auto job = static_cast<std::uint32_t>(std::strtoul(question, &rest, 10));
  slurm_step_layout_t* const layout = layout_of(job, static_cast<std::uint32_t>(std::strtoul(rest, nullptr, 10)));
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

bool append_head_address(std::uint32_t job, std::uint32_t step, Buffer& answer) {
  slurm_step_layout_t* const layout = layout_of(job, step);
  char* const name = layout == nullptr ? nullptr : name_of_node(layout->node_list, node_of_rank_0(*layout));
  bool known = name != nullptr;
  if (known) {
    answer.append(name);
    answer.append(" ");
    known = append_node_address(name, answer);
  }
  std::free(name);
  if (layout != nullptr) {
    slurm_job_step_layout_free(layout);
  }
  return known;
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
