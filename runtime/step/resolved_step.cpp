#include "runtime/step/resolved_step.h"

#include <netdb.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/marker.h"
#include "runtime/launchers/slurm.h"
#include "runtime/step/gather.h"

namespace rollcall::step {
namespace {

bool any_head_name_resolves(const network::NetworkView& network) {
  return std::ranges::any_of(network.head_names, [](const auto& name) { return !name.addresses.empty(); });
}

}  // namespace

network::NetworkView observe_network(const job::JobFacts& facts, const settings::LaunchSettings& settings,
                                     const Environment& user, const network::LookUp& look_up) {
  const std::string& rule = settings.host_template;
  network::HeadNode head{.names = network::candidate_names(rule, facts.head_host)};
  if (facts.head_host.empty()) {
    // Outside Slurm only the user knows where rank 0 is. The route to that address gives the interface.
    const auto users = job::set_by_user(user, env::kMasterAddr);
    head.names = users ? std::vector{*users} : std::vector<std::string>{};
  }
  head.loopback_usable = facts.num_nodes == 1 || settings.loopback_allowed;
  head.is_this_host = !facts.head_host.empty() && facts.head_host == facts.this_host;
  std::vector<std::string> peers;
  for (const std::string& host : facts.hosts) {
    if (peers.empty() && host != facts.this_host) {
      peers = network::candidate_names(rule, host);
    }
  }
  network::NetworkView view = network::observe(head, peers, look_up);
  if (const auto users = job::set_by_user(user, env::kMasterAddr)) {
    view.users_head = look_up(*users);
  }
  return view;
}

bool head_is_unknown_only_here(const job::JobFacts& facts, const settings::LaunchSettings& settings,
                               const network::NetworkView& network, const Environment& user,
                               const network::LookUp& look_up) {
  if (any_head_name_resolves(network)) {
    return false;
  }
  const auto unanswered = [](const auto& name) { return name.error == ::gai_strerror(EAI_AGAIN); };
  if (std::ranges::any_of(network.head_names, unanswered)) {
    return true;
  }
  if (facts.head_host == facts.this_host) {
    return false;
  }
  job::JobFacts own = facts;
  own.head_host = own.this_host;
  return any_head_name_resolves(observe_network(own, settings, user, look_up));
}

Result<resolve::EnvPatch> resolve_here(const job::JobFacts& facts, const settings::LaunchSettings& settings,
                                       const network::NetworkView& network, const Environment& user) {
  return resolve::resolve(facts, settings, network, user, number_of_cpus());
}

Result<ObservedStep> observe_this_step(const Environment& user, const settings::LaunchSettings& settings,
                                       launchers::PmixClient* pmix_or_null) {
  ASSIGN_OR_RETURN(Gathered gathered, gather(user, pmix_or_null));
  ObservedStep step{.facts = std::move(gathered.facts), .trace = std::move(gathered.trace), .network = {}};
  launchers::find_head_in_host_file(user, step.facts);
  RETURN_IF_ERROR(choose_world(user, settings, step.facts));
  step.facts.sees_accelerator = sees_accelerator();
  step.network = observe_network(step.facts, settings, user);
  return step;
}

Result<ResolvedStep> resolve_this_step(const Environment& user, const settings::LaunchSettings& settings,
                                       launchers::PmixClient* pmix_or_null) {
  ASSIGN_OR_RETURN(ObservedStep observed, observe_this_step(user, settings, pmix_or_null));
  Result<resolve::EnvPatch> patch = resolve_here(observed.facts, settings, observed.network, user);
  if (!patch) {
    Error error = patch.error();
    error.of_this_node |= head_is_unknown_only_here(observed.facts, settings, observed.network, user);
    return error;
  }
  return ResolvedStep{std::move(observed), *std::move(patch)};
}

Result<void> check_head_is_known(const job::JobFacts& facts, const resolve::EnvPatch& patch) {
  const resolve::EnvChange* const address = patch.find(env::kMasterAddr);
  if (facts.head_known_to_all || (address != nullptr && address->action == resolve::Action::Keep)) {
    return {};
  }
  return fail("MASTER_ADDR", "", "no environment variable names the node of rank 0 under this distribution of tasks",
              "srun --ddp, or exporting MASTER_ADDR or SLURM_HOSTFILE", ErrorKind::Unavailable);
}

std::vector<std::string> warnings_to_report(const job::JobFacts& facts, const resolve::EnvPatch& patch) {
  std::vector<std::string> warnings = facts.rank == 0 ? patch.warnings : std::vector<std::string>();
  if (facts.local_rank == 0) {
    warnings.insert(warnings.end(), patch.node_warnings.begin(), patch.node_warnings.end());
  }
  warnings.insert(warnings.end(), patch.task_warnings.begin(), patch.task_warnings.end());
  return warnings;
}

void apply_to_this_process(const resolve::EnvPatch& patch) {
  for (const resolve::EnvChange& change : patch.changes) {
    if (change.action == resolve::Action::Set) {
      setenv(change.name.c_str(), change.value.c_str(), 1);
    } else if (change.action == resolve::Action::Unset) {
      unsetenv(change.name.c_str());
    }
  }
}

}  // namespace rollcall::step
