#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"

namespace rollcall::launchers {

/// Slurm's own limit of a het job's components (MAX_HET_JOB_COMPS).
inline constexpr std::uint32_t kMostComponents = 128;

/// Why `environment` is not that of a task of an ordinary step, or nothing where it is one. The batch, interactive and
/// extern steps are none: they run one process whatever the job's size.
[[nodiscard]] std::optional<std::string> why_not_a_slurm_task(const Environment& environment);

/// The facts of a step's task from the SLURM_* variables that slurmstepd gives it; `source` is "slurm". Read are
/// SLURM_JOB_ID, SLURM_STEP_ID, SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NUM_NODES,
/// SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_RESV_PORTS, SLURMD_NODENAME, SLURM_DISTRIBUTION,
/// SLURM_RESTART_COUNT and PMIX_RANK (a cross-check: a disagreement is a warning).
///
/// Rank 0 is on the first host of SLURM_STEP_NODELIST, with two exceptions. In a het step hosts are put in the order of
/// its components first (het_layout()). Under SLURM_DISTRIBUTION=arbitrary, and in a het step whose order the
/// environment leaves open, `head_host` is known only to rank 0 itself and in steps of one node; it is empty elsewhere,
/// with a warning, and `head_known_to_all` is false. A caller that knows better (the plugin from slurmctld) may call
/// job::adopt_layout() and forget_that_head_was_unknown().
///
/// Errors (Unavailable): not a task of an ordinary step; (Mismatch): the variables contradict each other or do not
/// parse. Pure, thread-safe.
[[nodiscard]] Result<job::JobFacts> facts_from_slurm(const Environment& environment);

/// Whether SLURM_DISTRIBUTION is arbitrary (the variable may carry more words): rank 0 can be on any node.
[[nodiscard]] bool is_arbitrary(const Environment& environment);

/// Takes the warnings about an unknown head back: it has been found after all.
void forget_that_head_was_unknown(job::JobFacts& facts);

/// The layout of a het step in the order of its node ranks. Slurm sorts SLURM_STEP_NODELIST and
/// SLURM_STEP_TASKS_PER_NODE by name across components, while ranks and node ranks go component by component; which
/// nodes are whose is in SLURM_JOB_NODELIST_HET_GROUP_<i> (of salloc and sbatch; `srun A : B` sets none). Of `facts`
/// the hosts and tasks per node are read. Nothing where these variables are absent or do not describe this step. Pure.
[[nodiscard]] std::optional<job::StepLayout> het_layout(const Environment& environment, const job::JobFacts& facts);

/// Under --distribution=arbitrary: finds rank 0's host in the file that SLURM_HOSTFILE names, which lists the host of
/// each rank. The file is believed only where it has this task on this host and as many tasks on each node as the step
/// has; otherwise nothing changes. Reads the file: for a process of the user's own, never as root for another user.
void find_head_in_host_file(const Environment& environment, job::JobFacts& facts);

}  // namespace rollcall::launchers
