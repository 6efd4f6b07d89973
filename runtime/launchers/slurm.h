#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"

namespace rollcall::launchers {

/// Slurm's limit for the components of a het job (MAX_HET_JOB_COMPS).
inline constexpr std::uint32_t kMostComponents = 128;

/// Returns why `environment` does not belong to a task of an ordinary step, or nothing where it does. The batch,
/// interactive and extern steps are not ordinary: they run one process whatever the job's size.
[[nodiscard]] std::optional<std::string> why_not_a_slurm_task(const Environment& environment);

/// Returns the facts of a task from the SLURM_* variables that slurmstepd sets; `source` is "slurm". It reads
/// SLURM_JOB_ID, SLURM_STEP_ID, SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NUM_NODES,
/// SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_RESV_PORTS, SLURMD_NODENAME, SLURM_DISTRIBUTION,
/// SLURM_RESTART_COUNT and PMIX_RANK, which is only compared: a difference is a warning.
///
/// Rank 0 is on the first host of SLURM_STEP_NODELIST, with two exceptions. In a het step, the hosts are first sorted
/// by component (het_layout()). Under SLURM_DISTRIBUTION=arbitrary, and in a het step whose order the environment does
/// not show, `head_host` is known only to rank 0 and in steps of one node; elsewhere it is empty, with a warning, and
/// `head_known_to_all` is false. A caller with a better source (the plugin asks slurmctld) may call job::adopt_layout()
/// and forget_that_head_was_unknown().
///
/// Errors (Unavailable): not a task of an ordinary step; (Mismatch): the variables contradict each other or do not
/// parse. Pure, thread-safe.
[[nodiscard]] Result<job::JobFacts> facts_from_slurm(const Environment& environment);

/// Returns whether SLURM_DISTRIBUTION begins with "arbitrary": rank 0 can then be on any node.
[[nodiscard]] bool is_arbitrary(const Environment& environment);

/// Removes the warning that the head node is unknown, after it has been found.
void forget_that_head_was_unknown(job::JobFacts& facts);

/// Returns the layout of a het step in the order of node ranks. Slurm sorts SLURM_STEP_NODELIST and
/// SLURM_STEP_TASKS_PER_NODE by name across components, while ranks and node ranks are ordered by component.
/// SLURM_JOB_NODELIST_HET_GROUP_<i> has the nodes of each component (salloc and sbatch set it, `srun A : B` does not).
/// Only the hosts and tasks per node of `facts` are read. Nothing where these variables are absent or do not describe
/// this step. Pure.
[[nodiscard]] std::optional<job::StepLayout> het_layout(const Environment& environment, const job::JobFacts& facts);

/// Finds rank 0's host under --distribution=arbitrary in the file of SLURM_HOSTFILE, which lists the host of each rank.
/// The file is used only where it has this task on this host and as many tasks on each node as the step; otherwise
/// nothing changes. Call it only in a process of the user, never as root, because it reads the user's file.
void find_head_in_host_file(const Environment& environment, job::JobFacts& facts);

}  // namespace rollcall::launchers
