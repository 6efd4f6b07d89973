#include "spank_plugin/step_layout.h"

#include <slurm/slurm.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/node_list.h"

// Weak: a Slurm that lacks one of these still loads the plugin.
#pragma weak slurm_job_step_layout_get
#pragma weak slurm_job_step_layout_free

namespace rollcall::spank {
namespace {

std::optional<std::uint32_t> node_of_rank_0(const slurm_step_layout_t& layout) {
  for (std::uint32_t node = 0; node < layout.node_cnt; ++node) {
    for (std::uint32_t task = 0; task < layout.tasks[node]; ++task) {
      if (layout.tids[node][task] == 0) {
        return node;
      }
    }
  }
  return std::nullopt;
}

std::optional<std::uint32_t> number(const Environment& step, std::string_view name) {
  return parse_integer<std::uint32_t>(step.get(name).value_or(""));
}

}  // namespace

std::optional<std::string> head_host_from_layout(const Environment& step) {
  const auto job = number(step, env::kSlurmJobId);
  const auto step_number = number(step, env::kSlurmStepId);
  if (!job || !step_number || slurm_job_step_layout_get == nullptr || slurm_job_step_layout_free == nullptr) {
    return std::nullopt;
  }
  slurm_step_id_t id{};
  id.job_id = *job;
  id.step_id = *step_number;
  id.step_het_comp = NO_VAL;
  const std::unique_ptr<slurm_step_layout_t, void (*)(slurm_step_layout_t*)> layout(slurm_job_step_layout_get(&id),
                                                                                    slurm_job_step_layout_free);
  const std::optional<std::uint32_t> node = layout ? node_of_rank_0(*layout) : std::nullopt;
  if (!node) {
    return std::nullopt;
  }
  const Result<std::vector<std::string>> hosts = job::expand_node_list(layout->node_list);
  return hosts && *node < hosts->size() ? std::optional((*hosts)[*node]) : std::nullopt;
}

}  // namespace rollcall::spank
