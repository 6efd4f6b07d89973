#pragma once

#include "runtime/base/environment.h"
#include "runtime/job/job_facts.h"

namespace rollcall::bootstrap {

/// Under --distribution=arbitrary: finds rank 0's host in the file that SLURM_HOSTFILE names, which lists the host of
/// each rank. The file is believed only where it has this task on this host and as many tasks on each node as the step
/// has; otherwise nothing changes. Reads the file: for a process of the user's own, never as root for another user.
void find_head_in_host_file(const Environment& environment, job::JobFacts& facts);

}  // namespace rollcall::bootstrap
