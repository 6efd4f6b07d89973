#pragma once

#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/step_layout.h"
#include "runtime/network/network_view.h"
#include "runtime/settings/settings.h"
#include "spank_plugin/folders.h"
#include "spank_plugin/options.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

/// What is alike for all tasks of a step on this node. Observed once, before the tasks are forked.
struct StepOnNode {
  settings::Settings settings;
  network::NetworkView network{};
  bool ask_controller = false;              ///< each task asks slurmctld for the layout, then observes the network
  std::optional<job::StepLayout> layout{};  ///< slurmctld's answer
  std::string gpus{};                       ///< the step's GPUs on this node: a task may see only its own
  bool own_name_resolves = true;            ///< checked only where no name of the head node resolves
  FoldersOnNode folders = {};
};

[[nodiscard]] bool any_head_name_resolves(const network::NetworkView& view);

/// Loads the settings and observes the network, as the job's user: nothing is opened or looked up as root for somebody
/// else. Errors: bad settings; facts that contradict each other; called as another user than the job's.
[[nodiscard]] Result<StepOnNode> observe_step(spank_t spank, const DdpOption& option,
                                              const std::optional<std::string>& site_file);

/// Gives the task that is about to start its environment, prints the warnings (rank 0), and ends the task where it
/// cannot have its rendezvous. Its facts come from its environment, which is one world in a het step, where SPANK's
/// items count within one component; where an item contradicts it in an ordinary step, a warning says so. For task_init
/// only.
void set_up_task(spank_t spank, Result<StepOnNode> on_node);

}  // namespace rollcall::spank
