#pragma once

#include <optional>

#include "runtime/base/environment.h"
#include "runtime/job/job_facts.h"
#include "runtime/job/step_layout.h"

namespace rollcall::bootstrap {

/// The layout of a het step in the order of its node ranks. Slurm sorts SLURM_STEP_NODELIST and
/// SLURM_STEP_TASKS_PER_NODE by name across components, while ranks and node ranks go component by component; which
/// nodes are whose is in SLURM_JOB_NODELIST_HET_GROUP_<i> (of salloc and sbatch; `srun A : B` sets none). Of `facts`
/// the hosts and tasks per node are read. Nothing where these variables are absent or do not describe this step. Pure.
[[nodiscard]] std::optional<job::StepLayout> het_layout(const Environment& environment, const job::JobFacts& facts);

}  // namespace rollcall::bootstrap
