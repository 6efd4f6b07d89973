#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/resolve/groups.h"

namespace rollcall::resolve {
namespace {

/// "10.78.0.1:20000", with an IPv6 address in brackets.
std::string endpoint(const std::string& host, const std::string& port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  return ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string first_numbers(std::size_t count) {
  std::string list;
  for (std::size_t i = 0; i < count; ++i) {
    list += (i == 0 ? "" : ",") + std::to_string(i);
  }
  return list;
}

/// Without it jax.distributed.initialize() takes GPU number SLURM_LOCALID of those that it sees: one that does not
/// exist where a task sees its own GPU only, and one of several where a node's only task sees all.
void add_local_devices(const Inputs& inputs, PatchBuilder& patch) {
  const EnvChange* const changed = patch.find(env::kCudaVisible);
  const std::string visible = changed != nullptr ? changed->value : inputs.user.get(env::kCudaVisible).value_or("");
  if (visible.empty() || visible.starts_with('-') || visible == "NoDevFiles") {
    return;
  }
  const auto count = static_cast<std::size_t>(std::ranges::count(visible, ',')) + 1;
  if (inputs.facts.local_world_size == 1) {
    patch.propose({env::kJaxLocalDevices, first_numbers(count), "CUDA_VISIBLE_DEVICES",
                   "the node's only task uses all GPUs that it sees"});
  } else if (count == 1) {
    patch.propose({env::kJaxLocalDevices, "0", "CUDA_VISIBLE_DEVICES", "the task sees one GPU"});
  }
}

}  // namespace

Result<void> add_jax(const Inputs& inputs, PatchBuilder& patch) {
  const EnvChange* const host = patch.find(env::kMasterAddr);
  const EnvChange* const port = patch.find(env::kMasterPort);
  if (host != nullptr && port != nullptr) {
    const std::string value = endpoint(host->value, port->value);
    patch.propose({env::kJaxCoordinator, value, "MASTER_ADDR", "MASTER_ADDR and MASTER_PORT"});
  }
  patch.propose({env::kJaxNumProcesses, std::to_string(inputs.facts.world_size), inputs.facts.source, "WORLD_SIZE"});
  patch.propose({env::kJaxProcessId, std::to_string(inputs.facts.rank), inputs.facts.source, "RANK"});
  add_local_devices(inputs, patch);
  return {};
}

}  // namespace rollcall::resolve
