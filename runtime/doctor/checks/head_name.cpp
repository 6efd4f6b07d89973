#include <fmt/format.h>

#include <algorithm>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {
namespace {

/// The first name that has an address, as resolve takes it; null: none.
const network::ResolvedName* usable(const NameFacts& names) {
  const auto found =
      std::ranges::find_if(names.head, [](const network::ResolvedName& name) { return !name.addresses.empty(); });
  return found == names.head.end() ? nullptr : &*found;
}

constexpr const char* kAction =
    "try getent hosts NAME on that node, then set host.template to a name that resolves on all nodes";

/// Empty where the name is fine on this node.
std::string objection(const TaskFacts& task, const World& world) {
  const NameFacts& names = task.node.names;
  const network::ResolvedName* const name = usable(names);
  if (name == nullptr) {
    return fmt::format("{} does not resolve ({})", names.head.front().name, names.head.front().error);
  }
  const network::Address& address = name->addresses.front();
  const bool elsewhere = task.host != world.step.head_host;
  if (address.loopback && elsewhere && world.step.num_nodes > 1 && !world.limits.loopback_allowed) {
    return fmt::format("{} is the loopback address {} on a node that is not the head", name->name, address.text);
  }
  return "";
}

/// Nodes on which the name means another address than on most others. The head itself may call itself 127.0.1.1.
void find_disagreement(const World& world, Grouped& grouped) {
  HostsByText hosts_by_address;
  for (const TaskFacts* node : nodes_of(world)) {
    const network::ResolvedName* const name = usable(node->node.names);
    if (name != nullptr && node->host != world.step.head_host) {
      hosts_by_address[name->name + " is " + name->addresses.front().text].push_back(node->host);
    }
  }
  if (hosts_by_address.size() < 2) {
    return;
  }
  const std::string& most = usual_text(hosts_by_address, world.step.head_host);
  for (const auto& [meaning, hosts] : hosts_by_address) {
    for (const std::string& host : meaning == most ? std::vector<std::string>() : hosts) {
      grouped.add(Status::Bad, host, fmt::format("{}, elsewhere {}", meaning, most),
                  "compare /etc/hosts and DNS of these nodes, or set host.template");
    }
  }
}

}  // namespace

Findings check_head_name(const World& world) {
  Grouped grouped;
  std::string meaning;
  for (const TaskFacts* node : nodes_of(world)) {
    if (node->node.names.head.empty()) {
      continue;
    }
    if (const std::string reason = objection(*node, world); !reason.empty()) {
      grouped.add(Status::Bad, node->host, reason, kAction);
    } else if (meaning.empty() || node->host != world.step.head_host) {
      const network::ResolvedName* const name = usable(node->node.names);
      meaning = fmt::format("{} is {} everywhere", name->name, name->addresses.front().text);
    }
  }
  find_disagreement(world, grouped);
  return std::move(grouped).or_else(meaning.empty() ? Status::Absent : Status::Good,
                                    meaning.empty() ? "no head node is known" : meaning);
}

}  // namespace rollcall::doctor
