#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"

namespace rollcall::job {

/// Which nodes a step has and how many tasks each, in the order of node ranks.
struct StepLayout {
  std::vector<std::string> hosts;
  std::vector<std::uint32_t> tasks_per_node;     ///< parallel to `hosts`
  std::vector<std::uint32_t> component_nodes;    ///< of a het step: nodes of each component, in order
  std::vector<std::uint32_t> component_offsets;  ///< parallel: which component of the het job it is, from 0
  std::string head_host;                         ///< rank 0's
};

/// Takes over what a better source says of the layout; `local_world_size` follows. A layout of other sizes than the
/// facts' is passed over. Pure.
void adopt_layout(const StepLayout& layout, JobFacts& facts);

/// Makes the facts of a het step those of the task's own component: a world of its own, whose ranks and nodes count
/// from 0. In every other step nothing changes. Doing it twice is doing it once. Error (Usage, setting world): nothing
/// says which nodes are which component's. Pure.
[[nodiscard]] Result<void> restrict_to_component(JobFacts& facts);

}  // namespace rollcall::job
