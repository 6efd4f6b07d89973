#include "runtime/rendezvous/exec_step.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/marker.h"
#include "runtime/network/network_view.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/meet.h"
#include "runtime/rendezvous/node_barrier.h"
#include "runtime/step/gather.h"

namespace rollcall::rendezvous {
namespace {

constexpr const char* kKey = "rollcall.exec";
constexpr const char* kNone = "none";
constexpr std::string_view kGds = "hash";
/// How long a rank with an error waits for the other ranks of its node to leave PMIx with it, before it reports the
/// error.
constexpr std::chrono::seconds kFailing{5};

bool is_free(std::uint16_t port) { return Listener::on_all_addresses(port).has_value(); }

/// Returns the first free port from `wanted` on in the site's range; a port of the kernel's choice where the range is
/// full.
Result<std::uint16_t> free_port_from(std::uint16_t wanted, const settings::LaunchSettings& settings) {
  constexpr int kTries = 64;
  const auto [first, last] = settings.port_range;
  std::uint16_t port = wanted;
  for (int tried = 0; tried < kTries; ++tried) {
    if (is_free(port)) {
      return port;
    }
    port = port >= first && port < last ? static_cast<std::uint16_t>(port + 1) : static_cast<std::uint16_t>(first);
  }
  const Result<Listener> any = Listener::on_all_addresses(0);
  return any ? Result<std::uint16_t>(any->port()) : any.error();
}

/// Returns whether the user or an enclosing rollcall of this step set the endpoint, which is then kept. Decides by the
/// environment alone, which is the same in all ranks, so that they agree even where one fails to resolve.
bool endpoint_is_given(const Environment& user) {
  if (job::set_by_user(user, env::kMasterAddr) || job::set_by_user(user, env::kMasterPort)) {
    return true;
  }
  const std::string step = user.get(env::kSlurmJobId).value_or("") + "." + user.get(env::kSlurmStepId).value_or("");
  const bool slurms_own = step::launched_by("pmix", user) == step::Launched::BySlurm;
  return slurms_own && user.get(env::kStep) == step && user.get_non_empty(env::kMasterPort);
}

/// Returns rank 0's host and a free port there, or rank 0's error.
Result<Endpoint> choose_endpoint(const Result<step::ResolvedStep>& step, const settings::LaunchSettings& settings) {
  if (!step) {
    return step.error();
  }
  const resolve::EnvChange* const wanted = step->patch.find(env::kMasterPort);
  const auto port = parse_integer<std::uint16_t>(wanted != nullptr ? wanted->value : "");
  ASSIGN_OR_RETURN(const std::uint16_t free, free_port_from(port.value_or(0), settings));
  return Endpoint{step->facts.this_host.empty() ? this_host_name() : step->facts.this_host, free};
}

/// Marks an error of this node's PMIx server, which may not occur on other nodes.
Error of_this_server(Error error) {
  error.of_this_node = true;
  return error;
}

Result<Endpoint> publish_endpoint(const Result<step::ResolvedStep>& step, const settings::LaunchSettings& settings,
                                  launchers::PmixClient& pmix) {
  Result<Endpoint> endpoint = choose_endpoint(step, settings);
  const Result<void> put = pmix.put(kKey, endpoint ? to_text(*endpoint) : kNone);
  const Result<void> fenced = pmix.fence(settings.rendezvous_timeout);
  if (!endpoint || (put && fenced)) {
    return endpoint;
  }
  return of_this_server(put ? fenced.error() : put.error());
}

Result<Endpoint> receive_endpoint(std::uint32_t first_rank, const settings::LaunchSettings& settings,
                                  launchers::PmixClient& pmix) {
  if (const Result<void> fenced = pmix.fence(settings.rendezvous_timeout); !fenced) {
    return of_this_server(fenced.error());
  }
  const Result<std::string> text = pmix.get(first_rank, kKey, settings.rendezvous_timeout);
  if (!text) {
    return of_this_server(text.error());
  }
  const std::optional<Endpoint> endpoint = parse_endpoint(*text);
  if (!endpoint) {
    return fail("rendezvous", *text, "rank 0 has no endpoint", "reading rank 0's own message", ErrorKind::Unavailable);
  }
  return *endpoint;
}

/// Returns a barrier for the ranks of this node as the PMIx server counts them. Unset where it does not count them or
/// no barrier can be created: they then continue without.
std::optional<NodeBarrier> barrier_of_this_node(launchers::PmixClient& pmix) {
  const Result<std::uint32_t> local_rank = pmix.fact(launchers::PmixFact::LocalRank);
  const Result<std::uint32_t> local_size = pmix.fact(launchers::PmixFact::LocalSize);
  if (!local_rank || !local_size || *local_size < 2) {
    return std::nullopt;
  }
  // Several nodes (slurmds) may share a host; each has its own barrier.
  const Result<std::uint32_t> node = pmix.fact(launchers::PmixFact::NodeId);
  const std::string name = fmt::format("exec {} {}", pmix.name_space(), node ? std::to_string(*node) : "");
  Result<NodeBarrier> barrier = NodeBarrier::join(name, *local_rank, *local_size);
  return barrier ? std::optional<NodeBarrier>(*std::move(barrier)) : std::nullopt;
}

/// Waits until all ranks of the node have left PMIx. When a client disconnects, even after PMIx_Finalize, the server
/// counts the rank as absent from every fence that others of its node have begun (OpenPMIx 3 to 6; its issue 4113). So
/// no program may begin one before all have left. Where the endpoint is given, nothing has synchronised the ranks so
/// far, so this may wait for one that is starting.
void leave_together(NodeBarrier& barrier, Result<step::ResolvedStep>& step, const settings::LaunchSettings& settings) {
  using std::chrono::milliseconds;
  const milliseconds patience =
      step ? std::chrono::ceil<milliseconds>(settings.rendezvous_timeout) : milliseconds(kFailing);
  if (!barrier.wait(patience) && step) {
    step->patch.node_warnings.push_back(fmt::format(
        "rendezvous.timeout: {} s: a rank of this node did not reach rollcall exec; an MPI program fails where one "
        "arrives later; try starting all ranks with rollcall exec, or raising this timeout",
        settings.rendezvous_timeout.count()));
  }
}

}  // namespace

Result<step::ResolvedStep> resolve_and_agree(const Environment& user, const settings::LaunchSettings& settings,
                                             launchers::PmixClient& pmix) {
  Result<step::ResolvedStep> step = step::resolve_this_step(user, settings, &pmix);
  const Result<std::uint32_t> size = pmix.fact(launchers::PmixFact::JobSize);
  if (endpoint_is_given(user) || (size && *size == 1)) {
    return step;
  }
  // A rank that failed takes part before it reports the error, because the others would wait for it.
  const bool publishes = !step || step->facts.rank == 0;
  const Result<Endpoint> endpoint =
      publishes ? publish_endpoint(step, settings, pmix) : receive_endpoint(step->facts.first_rank, settings, pmix);
  if (!step || !endpoint) {
    return step ? endpoint.error() : step.error();
  }
  step->facts.agreed_port = endpoint->port;
  if (step->facts.head_host.empty()) {
    step->facts.head_host = endpoint->host;
    step->facts.head_known_to_all = true;
    step->network = step::observe_network(step->facts, settings, user);
  }
  ASSIGN_OR_RETURN(resolve::EnvPatch patch, step::resolve_here(step->facts, settings, step->network, user));
  step->patch = std::move(patch);
  return step;
}

Result<step::ResolvedStep> resolve_for_exec(const Environment& user, const settings::LaunchSettings& settings) {
  const auto users_gds = user.get_non_empty(env::kPmixGds);
  const bool programs_alone = users_gds && *users_gds != kGds;
  const bool slurm_says_all = step::launched_by("pmix", user) == step::Launched::BySlurm && endpoint_is_given(user);
  if (settings.rendezvous != settings::Rendezvous::Pmix && (programs_alone || slurm_says_all)) {
    return step::resolve_this_step(user, settings, nullptr);
  }
  Result<std::unique_ptr<launchers::PmixClient>> client = pmix_for(user, settings);
  if (!client) {
    return user.get_non_empty(env::kPmixNamespace) ? of_this_server(client.error()) : client.error();
  }
  if (*client == nullptr) {
    return step::resolve_this_step(user, settings, nullptr);
  }
  std::optional<NodeBarrier> barrier = barrier_of_this_node(**client);
  Result<step::ResolvedStep> step = resolve_and_agree(user, settings, **client);
  client->reset();
  if (barrier) {
    leave_together(*barrier, step, settings);
  }
  if (step && !users_gds) {
    step->patch.changes.push_back({std::string(env::kPmixGds), std::string(kGds), resolve::Action::Set, "pmix",
                                   "rollcall was a PMIx client of this rank; the program can be the second"});
  }
  return step;
}

}  // namespace rollcall::rendezvous
