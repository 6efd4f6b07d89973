#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/network/network_view.h"
#include "runtime/settings/settings.h"
#include "runtime/storage/folders.h"
#include "spank_plugin/options.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

/// What became of the folders of a step on one node: looked after once, before its tasks are forked.
struct FoldersOnNode {
  std::vector<storage::RefusedCache> refused = {};  ///< caches that no task of this node gets
  std::optional<std::string> purge_warning = {};    ///< on the head node only
};

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

/// Whether any name of the head node has an address.
[[nodiscard]] bool any_head_name_resolves(const network::NetworkView& view);

/// Loads the settings, with the option's text as the last layer, and observes the network, as the job's user: nothing
/// is opened or looked up as root for somebody else. Errors: bad settings; facts that contradict each other; called as
/// another user than the job's.
[[nodiscard]] Result<StepOnNode> observe_step(spank_t spank, const DdpOption& option,
                                              const std::optional<std::string>& site_file);

/// What observe_step() had to leave to the task with environment `task`, where only slurmctld knows which node has rank
/// 0. For task_init only: around the earlier hooks Slurm 24.11 holds a lock that its own library's requests take, and
/// ends slurmstepd. Errors: facts that contradict each other.
[[nodiscard]] Result<StepOnNode> with_layout(spank_t spank, StepOnNode step, const Environment& task);

/// From the facts of the step to those of this task's world. They come from its environment, which is one world in a
/// het step, where SPANK's items count within one component; where an item contradicts it in an ordinary step, a
/// warning says so.
[[nodiscard]] Result<job::JobFacts> task_facts(spank_t spank, const Environment& task, const StepOnNode& step);

/// What the task with these facts tells about them: rank 0 everything, the first task of another node what concerns its
/// node alone. Pure.
[[nodiscard]] std::vector<std::string> warnings_about(const FoldersOnNode& folders, const job::JobFacts& task);

}  // namespace rollcall::spank
