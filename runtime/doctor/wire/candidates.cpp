#include "runtime/doctor/wire/candidates.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/resolve/master_endpoint.h"
#include "runtime/resolve/resolve.h"

namespace rollcall::doctor {
namespace {

using rendezvous::Endpoint;

std::uint16_t port_for(const job::JobFacts& facts, const settings::LaunchSettings& settings) {
  const auto [first, last] = settings.port_range;
  const Result<resolve::PortChoice> chosen = resolve::choose_rendezvous_port(facts, {first, last});
  return chosen ? chosen->port : 0;
}

/// Returns the facts of a step whose port is half of the range away.
job::JobFacts other_step(job::JobFacts facts, const settings::LaunchSettings& settings) {
  const auto [first, last] = settings.port_range;
  facts.reserved_ports.clear();
  facts.step_id = facts.step_id.value_or(facts.port_salt) + (std::uint32_t{last} - first + 1) / 2;
  return facts;
}

/// Returns whether the name was looked up without an address. A name that was not tried may resolve.
bool does_not_resolve(const network::NetworkView& network, const std::string& name) {
  const auto found = std::ranges::find(network.head_names, name, &network::ResolvedName::name);
  return found != network.head_names.end() && found->addresses.empty();
}

std::vector<network::Address> addresses_of(const network::NetworkView& network, const std::string& name) {
  const auto found = std::ranges::find(network.head_names, name, &network::ResolvedName::name);
  if (found != network.head_names.end()) {
    return found->addresses;
  }
  const bool users = network.users_head && network.users_head->name == name;
  return users ? network.users_head->addresses : std::vector<network::Address>();
}

void add(std::vector<std::string>& hosts, const std::string& host) {
  if (!host.empty() && std::ranges::find(hosts, host) == hosts.end()) {
    hosts.push_back(host);
  }
}

}  // namespace

Candidates candidates_of(const job::JobFacts& facts, const settings::LaunchSettings& settings,
                         const network::NetworkView& network, const Environment& user,
                         const Result<resolve::EnvPatch>& patch) {
  Candidates candidates;
  candidates.this_host = facts.this_host.empty() ? network.host_name : facts.this_host;
  candidates.second_port = port_for(other_step(facts, settings), settings);
  const Environment patched = patch ? resolve::apply(*patch, user) : user;
  const std::string host = patched.get(env::kMasterAddr).value_or("");
  const auto set_port = parse_integer<std::uint16_t>(patched.get(env::kMasterPort).value_or(""));
  const std::uint16_t port = patch && set_port ? *set_port : port_for(facts, settings);
  for (const network::ResolvedName& name : network.head_names) {
    for (const network::Address& address : name.addresses) {
      if (!address.link_local) {
        add(candidates.hosts, address.text);
      }
    }
  }
  if (!does_not_resolve(network, facts.head_host)) {
    add(candidates.hosts, facts.head_host);
  }
  if (patch && !host.empty() && port != 0) {
    candidates.expected = Endpoint{host, port};
    candidates.addresses = addresses_of(network, host);
  } else if (port != 0 && !network.head_names.empty()) {
    candidates.expected = Endpoint{network.head_names.front().name, port};
    candidates.expected_error = network.head_names.front().error;
  }
  return candidates;
}

std::vector<Endpoint> endpoints_of(const Candidates& candidates) {
  std::vector<Endpoint> endpoints;
  const bool expected_resolves = candidates.expected && candidates.expected_error.empty();
  if (expected_resolves) {
    endpoints.push_back(*candidates.expected);
  }
  for (const std::string& host : candidates.hosts) {
    for (const std::uint16_t port :
         {candidates.expected ? candidates.expected->port : std::uint16_t{0}, candidates.second_port}) {
      const auto same = [&](const Endpoint& other) { return other.host == host && other.port == port; };
      if (port != 0 && std::ranges::none_of(endpoints, same)) {
        endpoints.push_back({host, port});
      }
    }
  }
  if (expected_resolves && candidates.second_port != 0) {
    endpoints.push_back({candidates.expected->host, candidates.second_port});
  }
  return endpoints;
}

}  // namespace rollcall::doctor
