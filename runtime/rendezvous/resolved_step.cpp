#include "runtime/rendezvous/resolved_step.h"

#include <utility>

#include "runtime/bootstrap/gather.h"
#include "runtime/bootstrap/host_file.h"
#include "runtime/bootstrap/world.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/cpu_set.h"
#include "runtime/job/marker.h"
#include "runtime/network/host_name.h"
#include "runtime/network/observe.h"
#include "runtime/resolve/resolve.h"

namespace rollcall::rendezvous {

network::NetworkView observe_for(const job::JobFacts& facts, const settings::Settings& settings,
                                 const Environment& user) {
  const std::string& rule = settings.text("host.template");
  network::HeadNode head{.names = network::candidate_names(rule, facts.head_host)};
  if (facts.head_host.empty()) {
    // Outside Slurm only the user can have said where rank 0 is: that tells the way to it, too.
    const auto users = job::set_by_user(user, env::kMasterAddr);
    head.names = users ? std::vector{*users} : std::vector<std::string>{};
  }
  head.loopback_usable = facts.num_nodes == 1 || settings.text("host.loopback") == "allow";
  head.is_this_host = !facts.head_host.empty() && facts.head_host == facts.this_host;
  std::vector<std::string> peers;
  for (const std::string& host : facts.hosts) {
    if (peers.empty() && host != facts.this_host) {
      peers = network::candidate_names(rule, host);
    }
  }
  return network::observe(head, peers);
}

Result<void> resolve_again(const Environment& user, const settings::Settings& settings, ResolvedStep& step) {
  Result<resolve::EnvPatch> patch =
      resolve::resolve(step.facts, settings, step.network, user, job::cpus_of_this_process());
  if (!patch) {
    return patch.error();
  }
  step.patch = std::move(*patch);
  return {};
}

Result<ResolvedStep> resolve_this_step(const Environment& user, const settings::Settings& settings,
                                       bootstrap::PmixClient* pmix_or_null) {
  Result<bootstrap::Gathered> gathered = bootstrap::gather(user, pmix_or_null);
  if (!gathered) {
    return gathered.error();
  }
  ResolvedStep step;
  step.facts = std::move(gathered->facts);
  step.trace = std::move(gathered->trace);
  bootstrap::find_head_in_host_file(user, step.facts);
  if (const Result<void> chosen = bootstrap::choose_world(user, settings, step.facts); !chosen) {
    return chosen.error();
  }
  step.network = observe_for(step.facts, settings, user);
  if (const Result<void> resolved = resolve_again(user, settings, step); !resolved) {
    return resolved.error();
  }
  return step;
}

}  // namespace rollcall::rendezvous
