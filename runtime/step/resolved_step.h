#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/launchers/launcher.h"
#include "runtime/launchers/pmix.h"
#include "runtime/network/network_view.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::step {

// The steps from a task's environment to its changes: gather the facts, choose the world, observe the network, resolve.
// `rollcall env`, `rollcall exec`, the trainer and the task prolog call resolve_this_step(). The plugin, which has
// facts from SPANK and slurmctld, and the doctor, which continues where resolving fails, call the parts.

/// The facts of a task and its view of the network, before resolve().
struct ObservedStep {
  job::JobFacts facts;
  std::vector<launchers::TraceEntry> trace;
  network::NetworkView network;
};

/// A task with the changes of its environment.
struct ResolvedStep : ObservedStep {
  resolve::EnvPatch patch;
};

/// Gathers the facts of this task's world and observes the network. `user` is this task's environment
/// (of_this_process()). `settings` has all layers of the launch table. `pmix_or_null` is a client that the caller owns
/// and may keep for meet(); null: PMIx is not asked. Call it only in a process of the user, because it reads the file
/// of SLURM_HOSTFILE and looks up names. Errors: those of gather() and choose_world().
[[nodiscard]] Result<ObservedStep> observe_this_step(const Environment& user, const settings::LaunchSettings& settings,
                                                     launchers::PmixClient* pmix_or_null);

/// Calls observe_this_step() and resolve_here(), and returns their errors. `of_this_node` is set for an error that
/// other nodes may not have.
[[nodiscard]] Result<ResolvedStep> resolve_this_step(const Environment& user, const settings::LaunchSettings& settings,
                                                     launchers::PmixClient* pmix_or_null);

/// Restricts the facts of a step to the world of this task. With the setting world=component in a het step, the world
/// is the task's component. Otherwise the choice of an enclosing rollcall in the same step applies (`srun
/// --ddp=world=component` around `rollcall exec` or the trainer): its ranks are in the environment. Error (Usage,
/// setting world): the nodes of the components are unknown. Pure.
[[nodiscard]] Result<void> choose_world(const Environment& environment, const settings::LaunchSettings& settings,
                                        job::JobFacts& facts);

/// Observes the network for resolve::resolve(): it resolves the candidate names of the head node and finds the
/// interface towards it. Does I/O: name look-ups, /proc, getifaddrs(3). Never fails: the view lacks what could not be
/// observed, with the reason beside the name.
[[nodiscard]] network::NetworkView observe_network(const job::JobFacts& facts, const settings::LaunchSettings& settings,
                                                   const Environment& user,
                                                   const network::LookUp& look_up = network::resolve_name);

/// Returns whether no name of the head node resolves, and only this node may have that problem: the name server does
/// not answer it, or its own name by the same rule resolves. False where a name of the head node has an address. Does
/// I/O like observe_network().
[[nodiscard]] bool head_is_unknown_only_here(const job::JobFacts& facts, const settings::LaunchSettings& settings,
                                             const network::NetworkView& network, const Environment& user,
                                             const network::LookUp& look_up = network::resolve_name);

/// Calls resolve::resolve() with the number of CPUs of this process.
[[nodiscard]] Result<resolve::EnvPatch> resolve_here(const job::JobFacts& facts,
                                                     const settings::LaunchSettings& settings,
                                                     const network::NetworkView& network, const Environment& user);

/// Checks that every task knows where rank 0 is, or keeps a given MASTER_ADDR. A program without it would train alone,
/// fail, or wait for half an hour, so that no task starts. All ranks reach the same result from the environment, even
/// rank 0, which knows its own host. Error: Unavailable. Pure.
[[nodiscard]] Result<void> check_head_is_known(const job::JobFacts& facts, const resolve::EnvPatch& patch);

/// Returns the warnings of the patch that this task reports: rank 0 those of the step, the first task of a node those
/// of the node, and each task its own.
[[nodiscard]] std::vector<std::string> warnings_to_report(const job::JobFacts& facts, const resolve::EnvPatch& patch);

/// Applies the patch to the environment of this process, for its libraries and for a program that it executes. No other
/// thread may read the environment meanwhile.
void apply_to_this_process(const resolve::EnvPatch& patch);

}  // namespace rollcall::step
