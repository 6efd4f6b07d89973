#pragma once

#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/hooks/plugin_link.h"
#include "runtime/job/job_facts.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::hooks {

/// Returns the facts of the task in `request`. They come from its environment, whose ranks count over a whole het step,
/// while SPANK's count within one component. In an ordinary step a difference between both is a warning.
///
/// Where only slurmctld knows the node of rank 0 or the order of nodes (--distribution=arbitrary, a het step of `srun A
/// : B`), it is asked for the step's layout: one request of 1-9 ms per component, until all nodes of the step are
/// found. Errors: the facts contradict each other.
[[nodiscard]] Result<job::JobFacts> task_facts(PluginLink& plugin, const Request& request, const Environment& task,
                                               const settings::LaunchSettings& settings);

/// Returns the address by which Slurm reaches a node: from srun, which has asked slurmctld, or with a request. Error:
/// slurmctld does not answer, or this Slurm cannot ask.
[[nodiscard]] Result<std::string> node_address(PluginLink& plugin, const Request& request, const std::string& node);

}  // namespace rollcall::hooks
