#include <fmt/format.h>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {

Findings check_own_name(const World& world) {
  Grouped grouped;
  for (const TaskFacts* node : nodes_of(world)) {
    const network::ResolvedName& own = node->node.names.own;
    if (own.addresses.empty()) {
      grouped.add(Status::Notice, node->host,
                  fmt::format("the node's own name, {}, does not resolve there ({})", own.name, own.error),
                  "have the admin add it to /etc/hosts or DNS: JAX and torchrun look their own name up");
    }
  }
  return std::move(grouped).or_else(Status::Good, "resolves on every node");
}

}  // namespace rollcall::doctor
