#pragma once

#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/bootstrap/pmix_client.h"
#include "runtime/bootstrap/trace.h"
#include "runtime/job/job_facts.h"
#include "runtime/network/network_view.h"
#include "runtime/resolve/env_patch.h"
#include "runtime/settings/settings.h"

namespace rollcall::rendezvous {

/// Everything that rollcall knows about this task, from the facts to the changes of its environment.
struct ResolvedStep {
  job::JobFacts facts;
  std::vector<bootstrap::TraceEntry> trace;
  network::NetworkView network;
  resolve::EnvPatch patch;
};

/// Gathers the facts, observes the network and resolves: what `rollcall env`, `rollcall exec` and the trainer start
/// from. `user` is this task's environment (of_this_process()), `settings` has the launch table with all layers
/// applied. `pmix_or_null`: a client that the caller owns and may keep for meet(); null: do not ask PMIx. Does I/O:
/// name look-ups, /proc, getifaddrs. Errors: those of bootstrap::gather and resolve::resolve.
[[nodiscard]] Result<ResolvedStep> resolve_this_step(const Environment& user, const settings::Settings& settings,
                                                     bootstrap::PmixClient* pmix_or_null);

/// Resolves again, with the same network, after the caller learnt more facts (step.facts). Errors: those of
/// resolve::resolve.
[[nodiscard]] Result<void> resolve_again(const Environment& user, const settings::Settings& settings,
                                         ResolvedStep& step);

/// The network as resolve::resolve needs it for these facts: the head node's candidate names resolved, the interface
/// towards it found. What the plugin calls between its own facts and resolve(). I/O as above; never fails: what could
/// not be observed is missing from the view, with the reason beside the name.
[[nodiscard]] network::NetworkView observe_for(const job::JobFacts& facts, const settings::Settings& settings,
                                               const Environment& user);

}  // namespace rollcall::rendezvous
