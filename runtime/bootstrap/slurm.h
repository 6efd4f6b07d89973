#pragma once

#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"

namespace rollcall::bootstrap {

/// Why `environment` is not that of a task of an ordinary step, or nothing where it is one. The batch, interactive and
/// extern steps are none: they run one process whatever the job's size.
[[nodiscard]] std::optional<std::string> why_not_a_slurm_task(const Environment& environment);

/// The facts of a step's task from the SLURM_* variables that slurmstepd gives it; `source` is "slurm". Read are
/// SLURM_JOB_ID, SLURM_STEP_ID, SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NUM_NODES,
/// SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_RESV_PORTS, SLURMD_NODENAME, SLURM_DISTRIBUTION,
/// SLURM_RESTART_COUNT and PMIX_RANK (a cross-check: a disagreement is a warning).
///
/// Rank 0 is on the first host of SLURM_STEP_NODELIST, except under SLURM_DISTRIBUTION=arbitrary: there `head_host` is
/// known only to rank 0 itself and in steps of one node; it is empty elsewhere, with a warning. A caller that can read
/// the step's layout (the plugin) may fill it in.
///
/// Errors (Unavailable): not a task of an ordinary step; (Mismatch): the variables contradict each other or do not
/// parse. Pure, thread-safe.
[[nodiscard]] Result<job::JobFacts> facts_from_slurm(const Environment& environment);

}  // namespace rollcall::bootstrap
