#include "spank_plugin/step_layout.h"

#include <slurm/slurm.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/node_list.h"

// Weak: a Slurm that lacks one of these still loads the plugin.
#pragma weak slurm_job_step_layout_get
#pragma weak slurm_job_step_layout_free

namespace rollcall::spank {
namespace {

constexpr std::uint32_t kMostComponents = 1024;

using Layout = std::unique_ptr<slurm_step_layout_t, void (*)(slurm_step_layout_t*)>;

Layout ask(std::uint32_t job, std::uint32_t step) {
  slurm_step_id_t id{};
  id.job_id = job;
  id.step_id = step;
  id.step_het_comp = NO_VAL;
  return {slurm_job_step_layout_get(&id), slurm_job_step_layout_free};
}

bool has_rank_0(const slurm_step_layout_t& layout, std::uint32_t node) {
  const auto* const first = layout.tids[node];
  return std::find(first, first + layout.tasks[node], 0U) != first + layout.tasks[node];
}

/// Adds one component's nodes (the only one's of an ordinary step); ranks count from 0 in each.
bool append(std::uint32_t offset, const slurm_step_layout_t& layout, job::StepLayout& whole) {
  const Result<std::vector<std::string>> hosts = job::expand_node_list(layout.node_list);
  if (!hosts || hosts->size() != layout.node_cnt) {
    return false;
  }
  for (std::uint32_t node = 0; node < layout.node_cnt; ++node) {
    whole.hosts.push_back((*hosts)[node]);
    whole.tasks_per_node.push_back(layout.tasks[node]);
    if (whole.component_nodes.empty() && has_rank_0(layout, node)) {
      whole.head_host = (*hosts)[node];
    }
  }
  whole.component_nodes.push_back(layout.node_cnt);
  whole.component_offsets.push_back(offset);
  return true;
}

}  // namespace

std::optional<job::StepLayout> layout_from_controller(const Environment& step, const job::JobFacts& facts) {
  if (!facts.job_id || !facts.step_id || slurm_job_step_layout_get == nullptr ||
      slurm_job_step_layout_free == nullptr) {
    return std::nullopt;
  }
  const auto size = parse_integer<std::uint32_t>(step.get(env::kSlurmHetSize).value_or(""));
  const std::uint32_t components = facts.het ? std::min(size.value_or(1), kMostComponents) : 1;
  job::StepLayout whole;
  // Each component is a job of its own for slurmctld, numbered from the first one's; not every one is in this step.
  for (std::uint32_t index = 0; index < components; ++index) {
    const Layout layout = ask(*facts.job_id + index, *facts.step_id);
    if (layout && !append(index, *layout, whole)) {
      return std::nullopt;
    }
  }
  if (!facts.het) {
    whole.component_nodes.clear();
    whole.component_offsets.clear();
  }
  return whole.hosts.empty() ? std::nullopt : std::optional(std::move(whole));
}

}  // namespace rollcall::spank
