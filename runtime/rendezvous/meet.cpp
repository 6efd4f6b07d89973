#include "runtime/rendezvous/meet.h"

#include <chrono>
#include <cstdint>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/marker.h"
#include "runtime/network/network_view.h"
#include "runtime/rendezvous/connect.h"
#include "runtime/settings/values.h"

namespace rollcall::rendezvous {
namespace {

constexpr const char* kPmixKey = "rollcall.endpoint";

/// What the methods have in common.
struct Call {
  const job::JobFacts& facts;
  const Environment& environment;
  const settings::Settings& settings;
  launchers::PmixClient* pmix;

  [[nodiscard]] std::chrono::duration<double> timeout() const {
    return std::chrono::duration<double>(settings.number("rendezvous.timeout"));
  }
};

Error no_pmix(const std::string& reason) {
  return fail("rendezvous", "pmix", reason, "srun --mpi=pmix", ExitCode::Unavailable);
}

Result<std::uint16_t> parse_port(const std::string& text) {
  const auto port = parse_integer<std::uint16_t>(text);
  if (!port || *port == 0) {
    return fail("MASTER_PORT", text, "is no port", "a number from 1 to 65535, or unset MASTER_PORT", ExitCode::Usage);
  }
  return *port;
}

/// For a published endpoint any port will do. The user's choice binds; Slurm's reservation is tried first, since a site
/// may open only those ports between its nodes.
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

/// The name under which rank 0, this process, is reached: MASTER_ADDR, or its own host by the site's rule where nobody
/// could know rank 0's host before (arbitrary distribution, PMIx without Slurm).
std::string own_reachable_name(const Call& call) {
  if (const auto address = call.environment.get_non_empty(env::kMasterAddr)) {
    return *address;
  }
  std::string host = call.facts.this_host.empty() ? this_host_name() : call.facts.this_host;
  for (const std::string& name : network::candidate_names(call.settings.text("host.template"), host)) {
    if (!network::resolve_name(name).addresses.empty()) {
      return name;
    }
  }
  return host;
}

Result<Endpoint> wait_for(const Call& call, const Endpoint& endpoint) {
  return wait_until_accepting([&] { return endpoint; }, call.timeout(), "rendezvous", to_text(endpoint));
}

Result<Meeting> meet_alone() {
  Result<Listener> listener = Listener::on_loopback();
  if (!listener) {
    return listener.error();
  }
  const Endpoint endpoint{"127.0.0.1", listener->port()};
  return Meeting{endpoint, std::move(*listener), "alone", std::nullopt};
}

Result<Meeting> meet_by_address(const Call& call) {
  const auto host = call.environment.get_non_empty(env::kMasterAddr);
  const auto port_text = call.environment.get_non_empty(env::kMasterPort);
  if (!host || !port_text) {
    return fail(host ? "MASTER_PORT" : "MASTER_ADDR", "", "is not set, so that nothing says where rank 0 is",
                "srun --ddp, srun --mpi=pmix, or setting MASTER_ADDR and MASTER_PORT", ExitCode::Usage);
  }
  const Result<std::uint16_t> port = parse_port(*port_text);
  if (!port) {
    return port.error();
  }
  const Endpoint endpoint{*host, *port};
  if (call.facts.rank == 0) {
    Result<Listener> listener = Listener::on_all_addresses(*port);
    if (!listener) {
      return listener.error();
    }
    return Meeting{endpoint, std::move(*listener), "address", std::nullopt};
  }
  const Result<Endpoint> found = wait_for(call, endpoint);
  return found ? Result<Meeting>(Meeting{endpoint, std::nullopt, "address", std::nullopt}) : found.error();
}

/// Rank 0's failure goes into the fence as an empty text: without it the others would wait there for ever.
Result<Meeting> publish_over_pmix(const Call& call) {
  Result<Listener> listener = listen_anywhere(call);
  const Endpoint endpoint{own_reachable_name(call), listener ? listener->port() : std::uint16_t{0}};
  const Result<void> put = call.pmix->put(kPmixKey, listener ? to_text(endpoint) : "none");
  const Result<void> fenced = call.pmix->fence(call.timeout());
  if (!listener) {
    return listener.error();
  }
  if (!put || !fenced) {
    return put ? fenced.error() : put.error();
  }
  return Meeting{endpoint, std::move(*listener), "pmix", std::nullopt};
}

Result<Meeting> meet_over_pmix(const Call& call) {
  if (call.facts.rank == 0) {
    return publish_over_pmix(call);
  }
  if (const Result<void> fenced = call.pmix->fence(call.timeout()); !fenced) {
    return fenced.error();
  }
  const Result<std::string> text = call.pmix->get(call.facts.first_rank, kPmixKey, call.timeout());
  if (!text) {
    return text.error();
  }
  const std::optional<Endpoint> endpoint = parse_endpoint(*text);
  if (!endpoint) {
    return fail("rendezvous", *text, "rank 0 has no endpoint", "reading rank 0's own message", ExitCode::Unavailable);
  }
  const Result<Endpoint> found = wait_for(call, *endpoint);
  return found ? Result<Meeting>(Meeting{*endpoint, std::nullopt, "pmix", std::nullopt}) : found.error();
}

Result<Meeting> publish_in_file(const Call& call, const std::filesystem::path& path) {
  Result<Listener> listener = listen_anywhere(call);
  if (!listener) {
    return listener.error();
  }
  const Endpoint endpoint{own_reachable_name(call), listener->port()};
  Result<EndpointFile> file = EndpointFile::publish(path, endpoint);
  if (!file) {
    return file.error();
  }
  return Meeting{endpoint, std::move(*listener), "file", std::move(*file)};
}

Result<Meeting> meet_by_file(const Call& call) {
  const std::string& configured = call.settings.text("rendezvous.folder");
  if (configured.empty()) {
    return fail("rendezvous.folder", "", "is not set, and rendezvous is file",
                "setting it to a folder that all nodes share", ExitCode::Usage);
  }
  const Result<std::string> folder = settings::expand_path(configured, call.environment, "rendezvous.folder");
  if (!folder) {
    return folder.error();
  }
  const std::filesystem::path path = endpoint_file_path(*folder, call.facts);
  if (call.facts.rank == 0) {
    return publish_in_file(call, path);
  }
  // Asked again before every attempt: a file that another run left behind names a port where nobody listens.
  const Result<Endpoint> found = wait_until_accepting([&] { return read_endpoint_file(path); }, call.timeout(),
                                                      "rendezvous.folder", path.string());
  return found ? Result<Meeting>(Meeting{*found, std::nullopt, "file", std::nullopt}) : found.error();
}

}  // namespace

Result<std::unique_ptr<launchers::PmixClient>> pmix_for(const Environment& environment,
                                                        const settings::Settings& settings) {
  const std::string& method = settings.text("rendezvous");
  if (method != "auto" && method != "pmix") {
    return std::unique_ptr<launchers::PmixClient>();
  }
  if (!environment.get_non_empty(env::kPmixNamespace)) {
    return method == "pmix" ? Result<std::unique_ptr<launchers::PmixClient>>(
                                  no_pmix("no PMIx server started this task (PMIX_NAMESPACE is not set)"))
                            : std::unique_ptr<launchers::PmixClient>();
  }
  Result<std::unique_ptr<launchers::PmixClient>> client = launchers::open_pmix();
  if (!client && method == "auto") {
    return std::unique_ptr<launchers::PmixClient>();
  }
  return client;
}

Result<Meeting> meet(const job::JobFacts& facts, const Environment& patched, const settings::Settings& settings,
                     launchers::PmixClient* pmix_or_null) {
  const Call call{facts, patched, settings, pmix_or_null};
  const std::string& method = settings.text("rendezvous");
  if (method == "pmix") {
    return pmix_or_null != nullptr ? meet_over_pmix(call) : no_pmix("no PMIx server started this task");
  }
  if (method == "file") {
    return meet_by_file(call);
  }
  if (method == "address") {
    return meet_by_address(call);
  }
  if (facts.world_size == 1) {
    return meet_alone();
  }
  const bool users = job::set_by_user(patched, env::kMasterAddr) || job::set_by_user(patched, env::kMasterPort);
  return users || pmix_or_null == nullptr ? meet_by_address(call) : meet_over_pmix(call);
}

}  // namespace rollcall::rendezvous
