#include "runtime/resolve/master_endpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/resolve/patch_builder.h"

namespace rollcall::resolve {
namespace {

using network::Address;
using network::ResolvedName;

constexpr std::string_view kTemplate = "host.template";

/// Decides which addresses are usable on this node.
struct AddressRules {
  const job::JobFacts& facts;
  std::string this_host;  ///< the name of this node in messages
  bool loopback_works;

  [[nodiscard]] bool is_usable(const Address& address) const {
    return !address.link_local && (!address.loopback || loopback_works);
  }
};

AddressRules address_rules(const job::JobFacts& facts, const network::NetworkView& network, bool loopback_allowed) {
  const bool this_is_head = facts.rank == 0 || (!facts.head_host.empty() && facts.head_host == facts.this_host);
  return {facts, facts.this_host.empty() ? network.host_name : facts.this_host,
          facts.num_nodes == 1 || loopback_allowed || this_is_head};
}

std::string describe(const std::vector<Address>& addresses) {
  std::vector<std::string> texts;
  texts.reserve(addresses.size());
  for (const Address& address : addresses) {
    texts.push_back(address.text);
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Returns a clause: "does not resolve on jwb0002 (Name or service not known)", "resolves to loopback only (127.0.1.1)
/// on jwb0002".
std::string why_unusable(const ResolvedName& name, const AddressRules& rules) {
  if (name.addresses.empty()) {
    const std::string detail = name.error.empty() ? "" : " (" + name.error + ")";
    return fmt::format("does not resolve on {}{}", rules.this_host, detail);
  }
  const bool loopback =
      std::any_of(name.addresses.begin(), name.addresses.end(), [](const Address& a) { return a.loopback; });
  return fmt::format("resolves to {} only ({}) on {}", loopback ? "loopback" : "link-local addresses",
                     describe(name.addresses), rules.this_host);
}

Error no_usable_name(const std::vector<ResolvedName>& names, const AddressRules& rules) {
  if (names.empty()) {
    return fail("host.template", "", "does not give a name for the head node", "setting it to {host}",
                ErrorKind::Unavailable);
  }
  std::string reason = why_unusable(names.front(), rules);
  for (std::size_t i = 1; i < names.size(); ++i) {
    reason += fmt::format(", and {} {}", names[i].name, why_unusable(names[i], rules));
  }
  const auto is_loopback = [](const ResolvedName& name) {
    return std::any_of(name.addresses.begin(), name.addresses.end(), [](const Address& a) { return a.loopback; });
  };
  const bool loopback = std::any_of(names.begin(), names.end(), is_loopback);
  Error error = fail("host.template", names.front().name, reason,
                     loopback ? "using a template whose name resolves across nodes, or --host-loopback=allow where all "
                                "nodes are one machine"
                              : "using a template whose name resolves (getent hosts NAME shows that)",
                     ErrorKind::Unavailable);
  error.of_this_node = loopback;  // rank 0 itself may use its loopback address
  return error;
}

/// Returns whether PyTorch's store would try IPv6 first although the name also has IPv4 addresses. That takes two
/// minutes where packets are lost (tryConnect in torch/csrc/distributed/c10d/socket.cpp), which cannot happen with ::1.
bool would_be_tried_by_ipv6_first(const ResolvedName& name) {
  const auto& all = name.addresses;
  return std::ranges::any_of(all, &Address::ipv4) &&
         std::ranges::any_of(all, [](const Address& address) { return !address.ipv4 && !address.loopback; });
}

MasterAddressChoice take(const ResolvedName& name, const AddressRules& rules) {
  const auto usable = [&](const Address& address) { return rules.is_usable(address); };
  const Address& first = *std::find_if(name.addresses.begin(), name.addresses.end(), usable);
  const std::string rank0 = rules.facts.head_host.empty() ? "the head node" : "rank 0 is on " + rules.facts.head_host;
  if (std::all_of(name.addresses.begin(), name.addresses.end(), usable) && !would_be_tried_by_ipv6_first(name)) {
    return {network::name_for_programs(name),
            fmt::format("{}, {} resolves to {}", rank0, name.name, describe(name.addresses)),
            {}};
  }
  return {first.text,
          fmt::format("{}, the best of the addresses of {} ({})", rank0, name.name, describe(name.addresses)),
          {}};
}

/// Returns the known addresses of the head node: those of its names, and of all interfaces where it is this host.
std::vector<Address> addresses_of_head(const Inputs& inputs) {
  std::vector<Address> all;
  for (const ResolvedName& name : inputs.network.head_names) {
    all.insert(all.end(), name.addresses.begin(), name.addresses.end());
  }
  if (inputs.facts.rank == 0 || inputs.facts.head_host == inputs.facts.this_host) {
    for (const network::Interface& interface : inputs.network.interfaces) {
      all.insert(all.end(), interface.addresses.begin(), interface.addresses.end());
    }
  }
  return all;
}

/// Returns whether the user's MASTER_ADDR belongs to the head node, perhaps as its FQDN or in another network.
bool is_head_node(const std::string& value, const Inputs& inputs) {
  const network::NetworkView& view = inputs.network;
  const bool loopback_works = inputs.facts.num_nodes == 1 || inputs.settings.loopback_allowed;
  const std::vector<Address> known = addresses_of_head(inputs);
  const auto is_known = [&](const Address& address) {
    return (!address.loopback || loopback_works) &&
           std::ranges::find(known, address.text, &Address::text) != known.end();
  };
  return value == inputs.facts.head_host ||
         std::ranges::find(view.head_names, value, &ResolvedName::name) != view.head_names.end() ||
         (view.users_head && std::ranges::any_of(view.users_head->addresses, is_known));
}

void warn_if_elsewhere(const std::string& value, const Inputs& inputs, PatchBuilder& patch) {
  if (!inputs.facts.head_host.empty() && !inputs.network.head_names.empty() && !is_head_node(value, inputs)) {
    patch.warn(
        fmt::format("MASTER_ADDR: {}: is kept because you set it, but rank 0 is on {}", value, inputs.facts.head_host));
  }
}

}  // namespace

Result<MasterAddressChoice> choose_master_address(const job::JobFacts& facts, const network::NetworkView& network,
                                                  bool loopback_allowed) {
  const AddressRules rules = address_rules(facts, network, loopback_allowed);
  const std::vector<ResolvedName>& names = network.head_names;
  const auto has_usable = [&](const ResolvedName& name) {
    return std::any_of(name.addresses.begin(), name.addresses.end(),
                       [&](const Address& address) { return rules.is_usable(address); });
  };
  const auto found = std::find_if(names.begin(), names.end(), has_usable);
  if (found == names.end()) {
    if (facts.num_nodes > 1) {
      return no_usable_name(names, rules);
    }
    MasterAddressChoice alone{"127.0.0.1", "the step has one node", {}};
    for (const ResolvedName& name : names) {
      alone.warnings.push_back(fmt::format("host.template: {}: {}; 127.0.0.1 is used on this one node", name.name,
                                           why_unusable(name, rules)));
    }
    return alone;
  }
  MasterAddressChoice choice = take(*found, rules);
  for (auto skipped = names.begin(); skipped != found; ++skipped) {
    choice.warnings.push_back(fmt::format("host.template: {}: {}; {} is used instead", skipped->name,
                                          why_unusable(*skipped, rules), found->name));
  }
  return choice;
}

Result<void> add_master_address(const Inputs& inputs, PatchBuilder& patch) {
  if (keep_known(env::kMasterAddr, kTemplate, inputs, patch)) {
    if (const auto value = patch.users(env::kMasterAddr)) {
      warn_if_elsewhere(*value, inputs, patch);
    }
    return {};
  }
  if (inputs.facts.head_host.empty() && inputs.facts.num_nodes > 1) {
    patch.warn("MASTER_ADDR: is not set, because the node of rank 0 is unknown");
    return {};
  }
  ASSIGN_OR_RETURN(const auto choice,
                   choose_master_address(inputs.facts, inputs.network, inputs.settings.loopback_allowed));
  for (const std::string& warning : choice.warnings) {
    patch.warn(warning);
  }
  const bool templated = !inputs.settings.given.is_default(kTemplate);
  const std::string rule = templated ? fmt::format(", rule {}", inputs.settings.host_template) : "";
  patch.propose(
      {env::kMasterAddr, choice.value, templated ? "setting host.template" : "network", choice.reason + rule});
  return {};
}

namespace {

/// Returns the offset of the ports of job `id` in a range of `size` ports: the fractional part of id times the golden
/// ratio, times `size`. N consecutive ids are spread evenly, at least size / (2.7 N) - 1 ports apart (Knuth, The Art of
/// Computer Programming, vol. 3, 6.4, theorem S and exercise 9). Other ids are spread at random.
std::uint32_t offset_of_job(std::uint32_t id, std::uint32_t size) {
  constexpr std::uint64_t kGoldenSection = 0x9e3779b97f4a7c15U;  // of 2^64
  const std::uint64_t fraction = (id * kGoldenSection) >> 32;
  return static_cast<std::uint32_t>((fraction * size) >> 32);
}

/// Returns the port at `index` of a list such as "17500-17503,17600", modulo its length.
Result<std::uint16_t> port_at(const std::string& list, std::uint32_t index) {
  const auto ranges = network::parse_port_list(list);
  if (!ranges || ranges->empty()) {
    return fail("SLURM_STEP_RESV_PORTS", list, "is not a port list", "reporting it: Slurm sets this variable");
  }
  std::uint32_t count = 0;
  for (const network::PortRange range : *ranges) {
    count += range.size();
  }
  std::uint32_t left = index % count;
  auto range = ranges->begin();
  for (; left >= range->size(); ++range) {
    left -= range->size();
  }
  return static_cast<std::uint16_t>(range->first + left);
}

Result<PortChoice> port_of_ids(const job::JobFacts& facts, network::PortRange range) {
  if (range.first == 0 || range.last < range.first) {
    return fail("port.range", fmt::format("{}-{}", range.first, range.last), "is empty", "setting it to 20000-29999");
  }
  const std::uint32_t job = facts.job_id.value_or(facts.port_salt);
  const std::uint32_t step = facts.step_id.value_or(facts.port_salt);
  // Each component of a het job has an id of its own, so that further worlds of a step can use the following ids.
  const std::uint64_t offset = std::uint64_t{offset_of_job(job + facts.world_index, range.size())} + step;
  const auto port = static_cast<std::uint16_t>(range.first + offset % range.size());
  return PortChoice{port, fmt::format("port of job {} step {} in port.range", job, step)};
}

/// Warns on rank 0's host where the port is an ephemeral port. It is not an error, because a site whose ephemeral ports
/// are 1024-65535 would have no valid range.
void warn_of_ephemeral(const PortChoice& choice, network::PortRange configured, const Inputs& inputs,
                       PatchBuilder& patch) {
  const network::EphemeralPorts& ephemeral = inputs.network.ephemeral_ports;
  if (inputs.facts.rank != 0 || !inputs.facts.reserved_ports.empty() || !ephemeral.contains(choice.port)) {
    return;
  }
  patch.warn(fmt::format(
      "MASTER_PORT: {}: may be in use when rank 0 needs it, because {} gives the ephemeral ports {}-{} to connections; "
      "try choosing a port.range outside of them, or setting net.ipv4.ip_local_reserved_ports={}-{} on all nodes",
      choice.port, inputs.network.host_name, ephemeral.range.first, ephemeral.range.last, configured.first,
      configured.last));
}

}  // namespace

Result<PortChoice> choose_rendezvous_port(const job::JobFacts& facts, network::PortRange configured) {
  if (facts.reserved_ports.empty()) {
    return port_of_ids(facts, configured);
  }
  ASSIGN_OR_RETURN(const std::uint16_t reserved, port_at(facts.reserved_ports, facts.world_index));
  return PortChoice{reserved, "reserved by Slurm for this step"};
}

namespace {

constexpr std::string_view kRange = "port.range";

/// Warns where the user's port differs from rollcall's. Without Slurm, the user has to set a port.
void warn_if_another_port(const std::string& value, const Inputs& inputs, PatchBuilder& patch) {
  const auto configured = inputs.settings.port_range;
  const auto ours = choose_rendezvous_port(inputs.facts, {configured.first, configured.second});
  if (inputs.facts.job_id && ours && value != std::to_string(ours->port)) {
    patch.warn(fmt::format("MASTER_PORT: {}: is kept because you set it; without it rollcall would set {} ({})", value,
                           ours->port, ours->reason));
  }
}

}  // namespace

Result<void> add_master_port(const Inputs& inputs, PatchBuilder& patch) {
  const auto users = patch.users(env::kMasterPort);
  if (users && parse_integer<std::uint16_t>(*users).value_or(0) == 0) {
    return fail("MASTER_PORT", *users, "must be a port number", "unsetting it", ErrorKind::Usage);
  }
  if (keep_known(env::kMasterPort, kRange, inputs, patch)) {
    if (users) {
      warn_if_another_port(*users, inputs, patch);
    }
    return {};
  }
  if (inputs.facts.agreed_port != 0) {
    patch.propose({env::kMasterPort, std::to_string(inputs.facts.agreed_port), "pmix",
                   "rank 0 found it free and sent it to all ranks over PMIx"});
    return {};
  }
  const auto [first, last] = inputs.settings.port_range;
  ASSIGN_OR_RETURN(const auto choice, choose_rendezvous_port(inputs.facts, {first, last}));
  warn_of_ephemeral(choice, {first, last}, inputs, patch);
  const std::string origin = inputs.facts.reserved_ports.empty() ? "setting port.range" : inputs.facts.source;
  patch.propose({env::kMasterPort, std::to_string(choice.port), origin, choice.reason});
  return {};
}

}  // namespace rollcall::resolve
