#include "runtime/rendezvous/meet.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/marker.h"
#include "runtime/network/network_view.h"
#include "runtime/rendezvous/port_owner.h"
#include "runtime/rendezvous/secret.h"
#include "runtime/rendezvous/shared_secret.h"
#include "runtime/settings/values.h"

namespace rollcall::rendezvous {
namespace {

using settings::Rendezvous;
constexpr const char* kPmixKey = "rollcall.endpoint";

/// The common arguments of the methods.
struct Call {
  const job::JobFacts& facts;
  const Environment& environment;
  const settings::LaunchSettings& settings;
  launchers::PmixClient* pmix;
};

Error no_pmix(const std::string& reason) {
  return fail("rendezvous", "pmix", reason, "srun --mpi=pmix", ErrorKind::Unavailable);
}

Result<std::uint16_t> parse_port(const std::string& text) {
  const auto port = parse_integer<std::uint16_t>(text);
  if (!port || *port == 0) {
    return fail("MASTER_PORT", text, "must be a port number", "unsetting it", ErrorKind::Usage);
  }
  return *port;
}

/// Listens for a published endpoint, for which any port will do. The user's choice is binding; Slurm's reservation is
/// tried first, since a site may open only those ports between its nodes.
Result<Listener> listen_anywhere(const Call& call) {
  if (const auto users = job::set_by_user(call.environment, env::kMasterPort)) {
    const Result<std::uint16_t> port = parse_port(*users);
    return port ? Listener::on_all_addresses(*port) : Result<Listener>(port.error());
  }
  const auto ours = parse_integer<std::uint16_t>(call.environment.get(env::kMasterPort).value_or(""));
  if (!call.facts.reserved_ports.empty() && ours) {
    if (Result<Listener> reserved = Listener::on_all_addresses(*ours)) {
      return reserved;
    }
  }
  return Listener::on_all_addresses(0);
}

/// Returns the name of rank 0, which is this process: MASTER_ADDR, or its own host by the site's rule where rank 0's
/// host was not known in advance (arbitrary distribution, PMIx without Slurm).
std::string own_reachable_name(const Call& call) {
  if (const auto address = call.environment.get_non_empty(env::kMasterAddr)) {
    return *address;
  }
  std::string host = call.facts.this_host.empty() ? this_host_name() : call.facts.this_host;
  for (const std::string& name : network::candidate_names(call.settings.host_template, host)) {
    if (const network::ResolvedName found = network::resolve_name(name); !found.addresses.empty()) {
      return network::name_for_programs(found);
    }
  }
  return host;
}

/// Returns the ports at which rank 0 may listen under `address`, in order: MASTER_PORT, and, where rollcall chose it
/// for a step without reserved ports, the following ones in the range, which wraps around.
std::vector<std::uint16_t> ports_of(const Call& call, std::uint16_t port) {
  constexpr std::uint32_t kMost = 16;
  const auto [first, last] = call.settings.port_range;
  const bool ours = !job::set_by_user(call.environment, env::kMasterPort) && call.facts.reserved_ports.empty();
  std::vector<std::uint16_t> ports{port};
  const std::uint32_t size = std::uint32_t{last} - first + 1;
  for (std::uint32_t i = 1; ours && port >= first && port <= last && i < std::min(kMost, size); ++i) {
    ports.push_back(static_cast<std::uint16_t>(first + (port - first + i) % size));
  }
  return ports;
}

/// Rank 0's part: admits all other ranks at `listener`.
Result<Meeting> receive_all(const Call& call, Meeting meeting, const Secret& secret) {
  ASSIGN_OR_RETURN(Members members, admit_others(*meeting.listener, meeting.key, secret, call.facts.world_size,
                                                 call.settings.rendezvous_timeout));
  meeting.members = std::move(members);
  return meeting;
}

/// Another rank's part.
Result<Meeting> join_rank_0(const Call& call, const LocationSource& source, const std::string& method,
                            const std::string& subject = "rendezvous", const std::string& what = "") {
  const AdmissionRequest request{world_name(call.facts), call.facts.rank, call.facts.world_size};
  Result<Admission> admission = be_admitted(source, request, call.settings.rendezvous_timeout, subject, what);
  return admission ? Result<Meeting>(Meeting{admission->endpoint,
                                             admission->key,
                                             std::nullopt,
                                             method,
                                             std::nullopt,
                                             {},
                                             std::move(admission->head)})
                   : admission.error();
}

WorldKey new_key(const Call& call) { return {world_name(call.facts), new_nonce()}; }

/// Derives the world's secret from what all its processes know.
Secret secret_of(const Call& call, const std::string& drawn) { return Secret::of(drawn, world_name(call.facts)); }

Result<Meeting> meet_alone(const Call& call) {
  ASSIGN_OR_RETURN(Listener listener, Listener::on_loopback());
  const Endpoint endpoint{"127.0.0.1", listener.port()};
  return Meeting{endpoint, new_key(call), std::move(listener), "alone", std::nullopt};
}

/// Listens at the first free one of `ports`; the error is that of the first one.
Result<Listener> listen_at_first_free(const std::vector<std::uint16_t>& ports) {
  Result<Listener> listener = Listener::on_all_addresses(ports.front());
  for (std::size_t i = 1; !listener && i < ports.size(); ++i) {
    if (Result<Listener> other = Listener::on_all_addresses(ports[i])) {
      return other;
    }
  }
  return listener;
}

/// Adds to the error that rank 0 had to take another port than the other ranks try first.
Error with_taker(Error error, std::uint16_t first, std::uint16_t own) {
  error.reason += fmt::format("; rank 0 listened at port {}, because {} listens at MASTER_PORT {} on {}", own,
                              listener_text(first), first, this_host_name());
  return error;
}

/// Adds what works without a file of the user, for instance where HOME cannot be written.
Error with_other_ways(Error error, const Call& call) {
  const bool steps_is_asked = call.settings.rendezvous_secret.empty();
  error.action +=
      fmt::format("; or {}srun --mpi=pmix or --rendezvous=file, which need none", steps_is_asked ? "srun --ddp, " : "");
  return error;
}

Result<Meeting> meet_by_address(const Call& call) {
  const auto host = call.environment.get_non_empty(env::kMasterAddr);
  const auto port_text = call.environment.get_non_empty(env::kMasterPort);
  if (!host || !port_text) {
    return fail(host ? "MASTER_PORT" : "MASTER_ADDR", "", "is not set, so the location of rank 0 is unknown",
                "srun --ddp, srun --mpi=pmix, or setting MASTER_ADDR and MASTER_PORT", ErrorKind::Unavailable);
  }
  ASSIGN_OR_RETURN(const std::uint16_t port, parse_port(*port_text));
  const Result<std::string> shared = shared_secret(call.environment, call.settings);
  if (!shared) {
    return with_other_ways(shared.error(), call);
  }
  const Secret secret = secret_of(call, *shared);
  const std::vector<std::uint16_t> ports = ports_of(call, port);
  if (call.facts.rank == 0) {
    ASSIGN_OR_RETURN(Listener listener, listen_at_first_free(ports));
    const Endpoint endpoint{*host, listener.port()};
    Result<Meeting> meeting =
        receive_all(call, Meeting{endpoint, new_key(call), std::move(listener), "address", std::nullopt}, secret);
    return meeting || endpoint.port == port ? std::move(meeting) : with_taker(meeting.error(), port, endpoint.port);
  }
  Locations locations;
  for (const std::uint16_t one : ports) {
    locations.locations.push_back({{*host, one}, secret});
  }
  return join_rank_0(
      call, [&] { return locations; }, "address");
}

/// Rank 0 joins the fence with "none" after a failure; otherwise the other ranks would wait there forever.
Result<Meeting> publish_over_pmix(const Call& call) {
  Result<Listener> listener = listen_anywhere(call);
  const Endpoint endpoint{own_reachable_name(call), listener ? listener->port() : std::uint16_t{0}};
  const std::string drawn = draw_secret();
  const Result<void> put = call.pmix->put(kPmixKey, listener ? to_text(endpoint) + " " + drawn : "none");
  const Result<void> fenced = call.pmix->fence(call.settings.rendezvous_timeout);
  if (!listener) {
    return listener.error();
  }
  if (!put || !fenced) {
    return put ? fenced.error() : put.error();
  }
  return receive_all(call, Meeting{endpoint, new_key(call), std::move(*listener), "pmix", std::nullopt},
                     secret_of(call, drawn));
}

Result<Meeting> meet_over_pmix(const Call& call) {
  if (call.facts.rank == 0) {
    return publish_over_pmix(call);
  }
  RETURN_IF_ERROR(call.pmix->fence(call.settings.rendezvous_timeout));
  ASSIGN_OR_RETURN(const std::string text,
                   call.pmix->get(call.facts.first_rank, kPmixKey, call.settings.rendezvous_timeout));
  const std::vector<std::string> parts = split(text, ' ');
  const std::optional<Endpoint> endpoint = parts.size() == 2 ? parse_endpoint(parts[0]) : std::nullopt;
  if (!endpoint) {
    return fail("rendezvous", text, "rank 0 has no endpoint", "reading rank 0's own message", ErrorKind::Unavailable);
  }
  return join_rank_0(
      call,
      [&] {
        return Locations{{{*endpoint, secret_of(call, parts[1])}}, ""};
      },
      "pmix");
}

Result<Meeting> publish_in_file(const Call& call, const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(Listener listener, listen_anywhere(call));
  const Endpoint endpoint{own_reachable_name(call), listener.port()};
  const std::string drawn = draw_secret();
  ASSIGN_OR_RETURN(EndpointFile file, EndpointFile::publish(path, endpoint, world_name(call.facts), drawn));
  return receive_all(call, Meeting{endpoint, new_key(call), std::move(listener), "file", std::move(file)},
                     secret_of(call, drawn));
}

/// Returns what the file contains now. It may be from an earlier run: then nothing or another process listens there,
/// until rank 0 has written its own.
Locations locations_in(const std::filesystem::path& path, const std::string& name) {
  const EndpointReading reading = read_endpoint_file(path, name);
  Locations locations{{}, reading.refusal};
  if (reading.endpoint) {
    locations.locations.push_back({*reading.endpoint, Secret::of(reading.secret, name)});
  }
  return locations;
}

Result<Meeting> meet_by_file(const Call& call) {
  const std::string& configured = call.settings.rendezvous_folder;
  if (configured.empty()) {
    return fail("rendezvous.folder", "", "is not set, and rendezvous is file",
                "setting it to a folder that all nodes share", ErrorKind::Usage);
  }
  ASSIGN_OR_RETURN(const std::string folder, settings::expand_path(configured, call.environment, "rendezvous.folder"));
  const std::filesystem::path path = endpoint_file_path(folder, call.facts);
  if (call.facts.rank == 0) {
    return publish_in_file(call, path);
  }
  const std::string name = world_name(call.facts);
  Result<Meeting> meeting = join_rank_0(
      call, [&] { return locations_in(path, name); }, "file", "rendezvous.folder", path.string());
  if (!meeting && meeting.error().kind == ErrorKind::RendezvousUnanswered) {
    Error error = meeting.error();
    error.reason += fmt::format("; the endpoint is from {}, perhaps of an earlier run", path.string());
    return error;
  }
  return meeting;
}

}  // namespace

Result<std::unique_ptr<launchers::PmixClient>> pmix_for(const Environment& environment,
                                                        const settings::LaunchSettings& settings) {
  const bool asked_for = settings.rendezvous == Rendezvous::Pmix;
  if (settings.rendezvous != Rendezvous::Auto && !asked_for) {
    return std::unique_ptr<launchers::PmixClient>();
  }
  if (!environment.get_non_empty(env::kPmixNamespace)) {
    return asked_for ? Result<std::unique_ptr<launchers::PmixClient>>(
                           no_pmix("no PMIx server started this task (PMIX_NAMESPACE is not set)"))
                     : std::unique_ptr<launchers::PmixClient>();
  }
  Result<std::unique_ptr<launchers::PmixClient>> client = launchers::open_pmix();
  if (!client && !asked_for) {
    return std::unique_ptr<launchers::PmixClient>();
  }
  return client;
}

Result<Meeting> meet(const job::JobFacts& facts, const Environment& patched, const settings::LaunchSettings& settings,
                     launchers::PmixClient* pmix_or_null) {
  const Call call{facts, patched, settings, pmix_or_null};
  switch (settings.rendezvous) {
    case Rendezvous::Pmix:
      return pmix_or_null != nullptr ? meet_over_pmix(call) : no_pmix("no PMIx server started this task");
    case Rendezvous::File:
      return meet_by_file(call);
    case Rendezvous::Address:
      return meet_by_address(call);
    case Rendezvous::Auto:
      break;
  }
  if (facts.world_size == 1) {
    return meet_alone(call);
  }
  const bool users = job::set_by_user(patched, env::kMasterAddr) || job::set_by_user(patched, env::kMasterPort);
  return users || pmix_or_null == nullptr ? meet_by_address(call) : meet_over_pmix(call);
}

}  // namespace rollcall::rendezvous
