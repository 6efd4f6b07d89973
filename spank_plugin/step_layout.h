#pragma once

#include <optional>

#include "runtime/base/environment.h"
#include "runtime/job/job_facts.h"
#include "runtime/job/step_layout.h"

namespace rollcall::spank {

/// The step's layout as slurmctld knows it: one request to it a component, 1-9 ms. Needed only where the variables do
/// not tell the node of rank 0 or the order of nodes: under --distribution=arbitrary, and in a het step of `srun A :
/// B`. For task_init only: earlier it ends slurmstepd in Slurm 24.11, which holds a lock there that its own library's
/// requests take. Nothing where slurmctld does not answer or this Slurm does not offer the question.
[[nodiscard]] std::optional<job::StepLayout> layout_from_controller(const Environment& step,
                                                                    const job::JobFacts& facts);

}  // namespace rollcall::spank
