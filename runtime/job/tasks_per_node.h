#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::job {

/// Expands SLURM_STEP_TASKS_PER_NODE (srun(1), SLURM_TASKS_PER_NODE): "2(x3),1" is {2, 2, 2, 1}, in the node list's
/// order. Errors (Mismatch, setting "tasks per node"): empty, not that notation, a zero, more than kMaxNodes counts.
/// Pure, thread-safe.
[[nodiscard]] Result<std::vector<std::uint32_t>> expand_tasks_per_node(std::string_view text);

}  // namespace rollcall::job
