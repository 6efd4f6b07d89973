#pragma once

#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/hooks/plugin_link.h"
#include "runtime/job/job_facts.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::hooks {

/// The facts of the task that `request` describes. They come from its environment, which is one world in a het step,
/// where SPANK's items count within one component; where an item contradicts it in an ordinary step, a warning says so.
///
/// Where only slurmctld knows the node of rank 0 or the order of nodes (--distribution=arbitrary, a het step of `srun A
/// : B`) it is asked for the step's layout: one request, in a het step one for each component until all of the step's
/// nodes are found, 1-9 ms each. Errors: facts that contradict each other.
[[nodiscard]] Result<job::JobFacts> task_facts(PluginLink& plugin, const Request& request, const Environment& task,
                                               const settings::LaunchSettings& settings);

/// The address by which Slurm reaches a node, as slurmctld says: no request where srun has asked for it, else one.
/// Error: it does not answer, or this Slurm does not offer the question.
[[nodiscard]] Result<std::string> node_address(PluginLink& plugin, const Request& request, const std::string& node);

}  // namespace rollcall::hooks
