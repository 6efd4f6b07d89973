#include <algorithm>
#include <optional>
#include <string>

#include "runtime/contract/env_vars.h"
#include "runtime/resolve/groups.h"

namespace rollcall::resolve {
namespace {

using network::Address;
using network::Interface;

/// An address by which the other nodes reach this one: of Gloo's interface, otherwise of the one that routes to them;
/// IPv4 before IPv6, never link-local, and loopback only where all nodes are one machine.
std::optional<std::string> own_address(const Inputs& inputs, const PatchBuilder& patch) {
  const network::NetworkView& view = inputs.network;
  const bool loopback_allowed = inputs.settings.text("host.loopback") == "allow";
  const EnvChange* const gloo = patch.find(env::kGlooInterface);
  const std::string wanted = gloo != nullptr ? gloo->value : view.route_interface.value_or("");
  const auto interface = std::ranges::find(view.interfaces, wanted, &Interface::name);
  if (interface == view.interfaces.end()) {
    return std::nullopt;
  }
  std::optional<std::string> chosen;
  for (const Address& address : interface->addresses) {
    const bool reachable = !address.link_local && (!address.loopback || loopback_allowed);
    if (reachable && (address.ipv4 || !chosen)) {
      chosen = address.text;
      if (address.ipv4) {
        break;
      }
    }
  }
  return chosen;
}

}  // namespace

// torchrun takes the default of its option --NAME from PET_<NAME> (torch/distributed/argparse_util.py).
// - Without PET_NODE_RANK its static rendezvous believes every node to be the first.
// - Its c10d rendezvous opens the store where the endpoint's name is the node's own (_matches_machine_hostname in
//   torch/distributed/elastic/rendezvous/utils.py), which "jwb0001i" is nowhere: is_host says it.
// - It tells the other nodes this node's own name, which they need not know: PET_LOCAL_ADDR is told instead.
Result<void> add_torchrun(const Inputs& inputs, PatchBuilder& patch) {
  const job::JobFacts& facts = inputs.facts;
  const EnvChange* const host = patch.find(env::kMasterAddr);
  const EnvChange* const port = patch.find(env::kMasterPort);
  if (facts.local_world_size != 1 || facts.num_nodes == 1 || host == nullptr || port == nullptr) {
    return {};
  }
  constexpr auto kReason = "one task a node: torchrun needs no more than --nproc-per-node";
  const std::string address = host->value;  // proposals below may move what `host` points to
  const std::string port_text = port->value;
  patch.propose({env::kTorchrunNodes, std::to_string(facts.num_nodes), facts.source, kReason});
  patch.propose({env::kTorchrunNodeRank, std::to_string(facts.node_rank), facts.source, kReason});
  patch.propose({env::kTorchrunMasterAddr, address, "MASTER_ADDR", kReason});
  patch.propose({env::kTorchrunMasterPort, port_text, "MASTER_PORT", kReason});
  patch.propose({env::kTorchrunRendezvousConf, facts.node_rank == 0 ? "is_host=1" : "is_host=0", facts.source,
                 "the store of --rdzv-backend=c10d is on the head node"});
  if (const std::optional<std::string> own = own_address(inputs, patch)) {
    patch.propose({env::kTorchrunLocalAddr, *own, "network", "this node, as the others reach it"});
  }
  return {};
}

}  // namespace rollcall::resolve
