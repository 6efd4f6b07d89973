#include <string>

#include "runtime/contract/env_vars.h"
#include "runtime/resolve/groups.h"

namespace rollcall::resolve {

// torchrun takes the default of its option --NAME from PET_<NAME> (torch/distributed/argparse_util.py). Without
// PET_NODE_RANK its static rendezvous believes that every node is the first one.
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
  return {};
}

}  // namespace rollcall::resolve
