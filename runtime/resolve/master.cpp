#include <fmt/format.h>

#include <optional>
#include <string>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/network/master_address.h"
#include "runtime/network/rendezvous_port.h"
#include "runtime/resolve/groups.h"

namespace rollcall::resolve {
namespace {

constexpr std::string_view kTemplate = "host.template";
constexpr std::string_view kRange = "port.range";

bool this_is_head(const job::JobFacts& facts) {
  return facts.rank == 0 || (!facts.head_host.empty() && facts.head_host == facts.this_host);
}

network::MasterAddressFacts address_facts(const Inputs& inputs) {
  network::MasterAddressFacts facts;
  facts.head_host = inputs.facts.head_host;
  facts.this_host = inputs.facts.this_host.empty() ? inputs.network.host_name : inputs.facts.this_host;
  facts.this_is_head = this_is_head(inputs.facts);
  facts.num_nodes = inputs.facts.num_nodes;
  facts.loopback_allowed = inputs.settings.text("host.loopback") == "allow";
  return facts;
}

/// Keeps a value that needs no looking for: the user's, or that of the enclosing rollcall, which alone may know where
/// rank 0 is (the plugin asks slurmctld).
bool keep_known(std::string_view name, std::string_view setting, const Inputs& inputs, PatchBuilder& patch) {
  if (const auto value = patch.users(name)) {
    patch.keep(name, *value, true);
    return true;
  }
  const bool head_is_known = !inputs.facts.head_host.empty() && inputs.facts.head_known_to_all;
  const auto value = head_is_known ? patch.inherited(name, setting) : patch.enclosing(name);
  if (value && patch.same_world()) {
    patch.keep(name, *value, false);
    return true;
  }
  return false;
}

/// A kept MASTER_ADDR of the user's is right where it is one of the head node's names or addresses.
void warn_if_elsewhere(const std::string& value, const Inputs& inputs, PatchBuilder& patch) {
  if (inputs.facts.head_host.empty() || value == inputs.facts.head_host || inputs.network.head_names.empty()) {
    return;
  }
  for (const network::ResolvedName& name : inputs.network.head_names) {
    bool same = name.name == value;
    for (const network::Address& address : name.addresses) {
      same = same || address.text == value;
    }
    if (same) {
      return;
    }
  }
  patch.warn(fmt::format("MASTER_ADDR: {}: is kept because you set it, though rank 0 is on {}", value,
                         inputs.facts.head_host));
}

Result<void> add_address(const Inputs& inputs, PatchBuilder& patch) {
  if (keep_known(env::kMasterAddr, kTemplate, inputs, patch)) {
    if (const auto value = patch.users(env::kMasterAddr)) {
      warn_if_elsewhere(*value, inputs, patch);
    }
    return {};
  }
  if (inputs.facts.head_host.empty() && inputs.facts.num_nodes > 1) {
    patch.warn("MASTER_ADDR: is not set, because nothing says where rank 0 is");
    return {};
  }
  const auto choice = network::choose_master_address(address_facts(inputs), inputs.network.head_names);
  if (!choice) {
    return choice.error();
  }
  for (const std::string& warning : choice->warnings) {
    patch.warn(warning);
  }
  const bool templated = inputs.settings.text(kTemplate) != "{host}";
  const std::string rule = templated ? fmt::format(", rule {}", inputs.settings.text(kTemplate)) : "";
  patch.propose(
      {env::kMasterAddr, choice->value, templated ? "setting host.template" : "network", choice->reason + rule});
  return {};
}

Result<void> add_port(const Inputs& inputs, PatchBuilder& patch) {
  if (const auto value = patch.users(env::kMasterPort);
      value && parse_integer<std::uint16_t>(*value).value_or(0) == 0) {
    return fail("MASTER_PORT", *value, "is no port", "unset it, or a number from 1 to 65535", ExitCode::Usage);
  }
  if (keep_known(env::kMasterPort, kRange, inputs, patch)) {
    return {};
  }
  if (inputs.facts.agreed_port != 0) {
    patch.propose({env::kMasterPort, std::to_string(inputs.facts.agreed_port), "pmix",
                   "rank 0 found it free and told all ranks over PMIx"});
    return {};
  }
  network::PortFacts facts;
  facts.job_id = inputs.facts.job_id.value_or(inputs.facts.port_salt);
  facts.step_id = inputs.facts.step_id.value_or(inputs.facts.port_salt);
  facts.world_index = inputs.facts.world_index;
  facts.reserved_ports = inputs.facts.reserved_ports;
  const auto [first, last] = inputs.settings.port_range(kRange);
  facts.configured = {first, last};
  facts.ephemeral = inputs.network.ephemeral_ports;
  const auto choice = network::choose_rendezvous_port(facts);
  if (!choice) {
    return choice.error();
  }
  const std::string origin = facts.reserved_ports.empty() ? "setting port.range" : inputs.facts.source;
  patch.propose({env::kMasterPort, std::to_string(choice->port), origin, choice->reason});
  return {};
}

}  // namespace

Result<void> add_master(const Inputs& inputs, PatchBuilder& patch) {
  if (Result<void> added = add_address(inputs, patch); !added) {
    return added;
  }
  return add_port(inputs, patch);
}

}  // namespace rollcall::resolve
