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

/// An address by which the other nodes reach this one: of Gloo's interface, otherwise of the one that routes to them;
/// IPv4 before IPv6, never link-local, and loopback only where all nodes are one machine.
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

/// The GPUs that the task will see, as CUDA_VISIBLE_DEVICES names them; nothing: unset or empty.
std::string visible_gpus(const Inputs& inputs, const PatchBuilder& patch) {
  const EnvChange* const changed = patch.find(env::kCudaVisible);
  return changed != nullptr ? changed->value : inputs.user.get(env::kCudaVisible).value_or("");
}

bool names_no_gpu(std::string_view visible) { return visible.starts_with('-') || visible == "NoDevFiles"; }

std::size_t number_of(std::string_view list) { return static_cast<std::size_t>(std::ranges::count(list, ',')) + 1; }

/// Programs take GPU number LOCAL_RANK of those that they see.
void warn_of_ordinals(const Inputs& inputs, PatchBuilder& patch) {
  const std::string visible = visible_gpus(inputs, patch);
  const std::uint32_t tasks = inputs.facts.local_world_size;
  if (!visible.empty() && !names_no_gpu(visible) && number_of(visible) < tasks) {
    patch.warn(fmt::format(
        "LOCAL_RANK: a task sees {} of the GPUs of its node's {} tasks (CUDA_VISIBLE_DEVICES={}): a program "
        "that takes GPU number LOCAL_RANK finds none; try gpus.visible=node, or --gpus-per-node in place of "
        "--gpus-per-task",
        number_of(visible), tasks, visible));
  }
}

/// Without it jax.distributed.initialize() takes GPU number SLURM_LOCALID of those that it sees: one that does not
/// exist where a task sees its own GPU only, and one of several where a node's only task sees all.
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

/// torchrun's c10d rendezvous opens the store where the endpoint's name is the node's own (_matches_machine_hostname in
/// torch/distributed/elastic/rendezvous/utils.py), which "jwb0001i" is nowhere: the head node is told. The others guess
/// right by themselves, and have to guess: told not to open a store they open none for --standalone either. Only where
/// all nodes are one machine would each take itself for the head.
void add_store_host(const Inputs& inputs, PatchBuilder& patch) {
  const bool is_head = inputs.facts.rank == 0;
  if (is_head || inputs.settings.loopback_allowed) {
    patch.propose({"PET_RDZV_CONF", is_head ? "is_host=1" : "is_host=0", inputs.facts.source,
                   "the store of --rdzv-backend=c10d is on the head node"});
  }
}

}  // namespace

// torchrun takes the default of its option --NAME from PET_<NAME> (torch/distributed/argparse_util.py). It numbers
// nodes as their tasks are numbered: under an arbitrary distribution rank 0 need not be on the step's first node.
// - Without PET_NODE_RANK its static rendezvous believes every node to be the first.
// - It tells the other nodes this node's own name, which they need not know: PET_LOCAL_ADDR is told instead.
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
    patch.propose({"PET_LOCAL_ADDR", *own, "network", "this node, as the others reach it"});
  }
  return {};
}

// Accelerate joins ranks that see no accelerator only where it is told to use CPUs (PartialState._prepare_backend in
// accelerate/state.py). Nothing is said where a device might be usable: it would not be used.
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
