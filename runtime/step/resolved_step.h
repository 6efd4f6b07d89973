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

// The one way from a task's environment to what rollcall does to it: gather, choose the world, observe the network,
// resolve. `rollcall env`, `rollcall exec`, the trainer and the task prolog call resolve_this_step(); the plugin, which
// has facts of its own from SPANK and slurmctld, and the doctor, which goes on where resolving fails, call its parts.

/// A task and its network, before anything is decided.
struct ObservedStep {
  job::JobFacts facts;
  std::vector<launchers::TraceEntry> trace;
  network::NetworkView network;
};

/// Everything that rollcall knows about this task, from the facts to the changes of its environment.
struct ResolvedStep : ObservedStep {
  resolve::EnvPatch patch;
};

/// Gathers the facts of this task's world and observes the network. `user` is this task's environment
/// (of_this_process()), `settings` has the launch table with all layers applied. `pmix_or_null`: a client that the
/// caller owns and may keep for meet(); null: do not ask PMIx. Reads the file that SLURM_HOSTFILE names, looks names
/// up: for a process of the user's own. Errors: those of gather() and choose_world().
[[nodiscard]] Result<ObservedStep> observe_this_step(const Environment& user, const settings::LaunchSettings& settings,
                                                     launchers::PmixClient* pmix_or_null);

/// The same, and resolves. Errors: those of observe_this_step() and resolve::resolve(), told apart by `of_this_node`.
[[nodiscard]] Result<ResolvedStep> resolve_this_step(const Environment& user, const settings::LaunchSettings& settings,
                                                     launchers::PmixClient* pmix_or_null);

/// Makes the facts of a whole step those of the world that this task belongs to. With setting world=component in a het
/// step that is the task's component. Without it, a rollcall that encloses this one in the same step (`srun
/// --ddp=world=component` around `rollcall exec` or the trainer) has decided, and what it decided holds: its ranks are
/// in the environment. Error (Usage, setting world): nothing says which nodes are which component's. Pure.
[[nodiscard]] Result<void> choose_world(const Environment& environment, const settings::LaunchSettings& settings,
                                        job::JobFacts& facts);

/// The network as resolve::resolve() needs it for these facts: the head node's candidate names resolved, the interface
/// towards it found. Does I/O: name look-ups, /proc, getifaddrs. Never fails: what could not be observed is missing
/// from the view, with the reason beside the name.
[[nodiscard]] network::NetworkView observe_network(const job::JobFacts& facts, const settings::LaunchSettings& settings,
                                                   const Environment& user,
                                                   const network::LookUp& look_up = network::resolve_name);

/// Whether it is a matter of this node that no name of the head node leads anywhere: the name server does not answer
/// it, or this node's own name, made by the same rule, leads somewhere. False where a name of the head has an address.
/// Does I/O as observe_network() does.
[[nodiscard]] bool head_is_unknown_only_here(const job::JobFacts& facts, const settings::LaunchSettings& settings,
                                             const network::NetworkView& network, const Environment& user,
                                             const network::LookUp& look_up = network::resolve_name);

/// resolve::resolve() for this process, whose CPUs are counted here.
[[nodiscard]] Result<resolve::EnvPatch> resolve_here(const job::JobFacts& facts,
                                                     const settings::LaunchSettings& settings,
                                                     const network::NetworkView& network, const Environment& user);

/// Whether every task knows where rank 0 is, or keeps a MASTER_ADDR that somebody else gave. A program that starts
/// without one trains alone, fails, or waits for half an hour: better none starts. Where the environment decides, every
/// rank comes to the same conclusion, even rank 0, which knows its own host. Error: Unavailable. Pure.
[[nodiscard]] Result<void> check_head_is_known(const job::JobFacts& facts, const resolve::EnvPatch& patch);

/// The warnings that this task tells, of the patch: rank 0 those of the step, the first task of a node those of it, and
/// its own.
[[nodiscard]] std::vector<std::string> warnings_to_tell(const job::JobFacts& facts, const resolve::EnvPatch& patch);

/// Changes the environment of this process itself, for libraries in it and for the program that it becomes. No other
/// thread may read the environment meanwhile.
void apply_to_this_process(const resolve::EnvPatch& patch);

}  // namespace rollcall::step
