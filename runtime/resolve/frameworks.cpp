#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/resolve/patch_builder.h"

namespace rollcall::resolve {
namespace {

using network::Address;
using network::Interface;

/// Returns an address by which the other nodes reach this one: that of Gloo's interface, or of the interface that
/// routes to them. IPv4 is preferred; link-local addresses are never used, and loopback only where all nodes are one
/// machine.
std::optional<std::string> own_address(const Inputs& inputs, const PatchBuilder& patch) {
  const network::NetworkView& view = inputs.network;
  const bool loopback_allowed = inputs.settings.loopback_allowed;
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

std::string first_numbers(std::size_t count) {
  std::string list;
  for (std::size_t i = 0; i < count; ++i) {
    list += (i == 0 ? "" : ",") + std::to_string(i);
  }
  return list;
}

/// Returns the CUDA_VISIBLE_DEVICES that the task will have; empty where it is unset or empty.
std::string visible_gpus(const Inputs& inputs, const PatchBuilder& patch) {
  const EnvChange* const changed = patch.find(env::kCudaVisible);
  return changed != nullptr ? changed->value : inputs.user.get(env::kCudaVisible).value_or("");
}

bool names_no_gpu(std::string_view visible) { return visible.starts_with('-') || visible == "NoDevFiles"; }

std::size_t number_of(std::string_view list) { return static_cast<std::size_t>(std::ranges::count(list, ',')) + 1; }

/// Warns where the task sees too few GPUs for programs that use GPU number LOCAL_RANK.
void warn_of_ordinals(const Inputs& inputs, PatchBuilder& patch) {
  const std::string visible = visible_gpus(inputs, patch);
  const std::uint32_t tasks = inputs.facts.local_world_size;
  if (!visible.empty() && !names_no_gpu(visible) && number_of(visible) < tasks) {
    patch.warn(fmt::format(
        "LOCAL_RANK: each of the {} tasks of a node sees only CUDA_VISIBLE_DEVICES={}: a program that uses GPU number "
        "LOCAL_RANK does not find it; try --gpus-visible=node, or --gpus-per-node in place of --gpus-per-task",
        tasks, visible));
  }
}

/// Proposes JAX_LOCAL_DEVICE_IDS. Without it jax.distributed.initialize() uses GPU number SLURM_LOCALID of the visible
/// ones, which does not exist where a task sees only its own GPU, and is one of several where a node's only task sees
/// all.
void add_local_devices(const Inputs& inputs, PatchBuilder& patch) {
  const std::string visible = visible_gpus(inputs, patch);
  if (visible.empty() || names_no_gpu(visible)) {
    return;
  }
  const std::size_t count = number_of(visible);
  if (inputs.facts.local_world_size == 1) {
    patch.propose({env::kJaxLocalDevices, first_numbers(count), "CUDA_VISIBLE_DEVICES",
                   "the node's only task uses all GPUs that it sees"});
  } else if (count == 1) {
    patch.propose({env::kJaxLocalDevices, "0", "CUDA_VISIBLE_DEVICES", "the task sees one GPU"});
  }
}

/// Proposes PET_RDZV_CONF. torchrun's c10d rendezvous opens the store where the endpoint's name is the node's own name
/// (_matches_machine_hostname in torch/distributed/elastic/rendezvous/utils.py), which "jwb0001i" never is. So the head
/// node gets is_host=1. The others guess right, and is_host=0 would also keep them from opening a store for
/// --standalone. They need it only where all nodes are one machine, and each would consider itself the head.
void add_store_host(const Inputs& inputs, PatchBuilder& patch) {
  const bool is_head = inputs.facts.rank == 0;
  if (is_head || inputs.settings.loopback_allowed) {
    patch.propose({"PET_RDZV_CONF", is_head ? "is_host=1" : "is_host=0", inputs.facts.source,
                   "the store of --rdzv-backend=c10d is on the head node"});
  }
}

}  // namespace

// torchrun reads the default of its option --NAME from PET_<NAME> (torch/distributed/argparse_util.py). Its node ranks
// must be the ranks of the tasks: under an arbitrary distribution rank 0 may not be on the step's first node.
// - Without PET_NODE_RANK, its static rendezvous assumes node rank 0 everywhere.
// - It sends this node's own name to the other nodes, which may not know it. PET_LOCAL_ADDR replaces the name.
Result<void> add_torchrun(const Inputs& inputs, PatchBuilder& patch) {
  const job::JobFacts& facts = inputs.facts;
  const EnvChange* const host = patch.find(env::kMasterAddr);
  const EnvChange* const port = patch.find(env::kMasterPort);
  if (facts.local_world_size != 1 || facts.world_size != facts.num_nodes || host == nullptr || port == nullptr) {
    return {};
  }
  constexpr auto kReason = "one task a node: torchrun needs no more than --nproc-per-node";
  const std::string address = host->value;  // proposals below may move what `host` points to
  const std::string port_text = port->value;
  add_store_host(inputs, patch);
  if (facts.num_nodes == 1) {
    return {};
  }
  patch.propose({env::kTorchrunNodes, std::to_string(facts.num_nodes), facts.source, kReason});
  const std::string node_rank = std::to_string(facts.rank);
  patch.propose({"PET_NODE_RANK", node_rank, facts.source, kReason, "", node_rank});
  patch.propose({"PET_MASTER_ADDR", address, "MASTER_ADDR", kReason});
  patch.propose({"PET_MASTER_PORT", port_text, "MASTER_PORT", kReason});
  if (const std::optional<std::string> own = own_address(inputs, patch)) {
    patch.propose({"PET_LOCAL_ADDR", *own, "network", "this node's address for the other nodes"});
  }
  return {};
}

// Accelerate connects ranks without an accelerator only where it is set to use CPUs (PartialState._prepare_backend in
// accelerate/state.py). The variable stays unset where a device may be usable, because it would not be used then.
Result<void> add_accelerate(const Inputs& inputs, PatchBuilder& patch) {
  const std::string visible = visible_gpus(inputs, patch);
  const bool none = visible.empty() ? !inputs.facts.sees_accelerator : names_no_gpu(visible);
  warn_of_ordinals(inputs, patch);
  if (none && inputs.facts.world_size > 1) {
    patch.propose({"ACCELERATE_USE_CPU", "true", "this node", "the task sees no accelerator"});
  }
  return {};
}

Result<void> add_jax(const Inputs& inputs, PatchBuilder& patch) {
  const EnvChange* const host = patch.find(env::kMasterAddr);
  const EnvChange* const port = patch.find(env::kMasterPort);
  if (host != nullptr && port != nullptr) {
    const std::string value = host_and_port(host->value, port->value);
    patch.propose({env::kJaxCoordinator, value, "MASTER_ADDR", "MASTER_ADDR and MASTER_PORT"});
  }
  patch.propose({env::kJaxNumProcesses, std::to_string(inputs.facts.world_size), inputs.facts.source, "WORLD_SIZE"});
  patch.propose({env::kJaxProcessId, std::to_string(inputs.facts.rank), inputs.facts.source, "RANK", "",
                 std::to_string(inputs.facts.first_rank_here)});
  add_local_devices(inputs, patch);
  return {};
}

}  // namespace rollcall::resolve
