#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/doctor/checks/grouped.h"

namespace rollcall::doctor {
namespace {

/// Returns the first name that has an address, which resolve chooses; null: none.
const network::ResolvedName* usable(const NameFacts& names) {
  const auto found =
      std::ranges::find_if(names.head, [](const network::ResolvedName& name) { return !name.addresses.empty(); });
  return found == names.head.end() ? nullptr : &*found;
}

constexpr const char* kNamesAction =
    "try getent hosts NAME on that node, then set host.template to a name that resolves on all nodes";

/// Returns the problem of the name on this node; empty: none.
std::string objection(const TaskFacts& task, const JobContext& context) {
  const NameFacts& names = task.node.names;
  const network::ResolvedName* const name = usable(names);
  if (name == nullptr) {
    return fmt::format("{} does not resolve ({})", names.head.front().name, names.head.front().error);
  }
  const network::Address& address = name->addresses.front();
  const bool elsewhere = task.host != context.step.head_host;
  if (address.loopback && elsewhere && context.step.num_nodes > 1 && !context.limits.loopback_allowed) {
    return fmt::format("{} is the loopback address {} on a node that is not the head", name->name, address.text);
  }
  return "";
}

/// Returns "jwb0001i is 10.78.0.1, 10.78.0.2", with sorted addresses because name servers rotate theirs.
std::string meaning_of(const network::ResolvedName& name) {
  std::vector<std::string> texts;
  for (const network::Address& address : name.addresses) {
    texts.push_back(address.text);
  }
  std::ranges::sort(texts);
  return fmt::format("{} is {}", name.name, fmt::join(texts, ", "));
}

bool shares_an_address(const network::ResolvedName& one, const network::ResolvedName& other) {
  return std::ranges::any_of(one.addresses, [&](const network::Address& address) {
    return std::ranges::find(other.addresses, address.text, &network::Address::text) != other.addresses.end();
  });
}

/// Finds nodes on which the name has no address in common with most others. The head node itself may map its name to
/// 127.0.1.1.
void find_disagreement(const JobContext& context, Grouped& grouped) {
  HostsByText hosts_by_meaning;
  std::map<std::string, const network::ResolvedName*> names;
  for (const TaskFacts* node : nodes_of(context)) {
    const network::ResolvedName* const name = usable(node->node.names);
    if (name != nullptr && node->host != context.step.head_host) {
      hosts_by_meaning[meaning_of(*name)].push_back(node->host);
      names.emplace(meaning_of(*name), name);
    }
  }
  if (hosts_by_meaning.size() < 2) {
    return;
  }
  const std::string& most = usual_text(hosts_by_meaning, context.step.head_host);
  for (const auto& [meaning, hosts] : hosts_by_meaning) {
    if (shares_an_address(*names.at(meaning), *names.at(most))) {
      continue;
    }
    for (const std::string& host : hosts) {
      grouped.add(Status::Bad, host, fmt::format("{}, elsewhere {}", meaning, most),
                  "compare /etc/hosts and DNS of these nodes, or set host.template");
    }
  }
}

}  // namespace

Findings check_own_name(const JobContext& context) {
  Grouped grouped;
  for (const TaskFacts* node : nodes_of(context)) {
    const network::ResolvedName& own = node->node.names.own;
    if (own.addresses.empty()) {
      grouped.add(Status::Notice, node->host,
                  fmt::format("the node's own name, {}, does not resolve there ({})", own.name, own.error),
                  "have the admin add it to /etc/hosts or DNS: JAX and torchrun look up their own host name");
    } else if (context.step.num_nodes > 1 && !context.limits.loopback_allowed &&
               std::ranges::all_of(own.addresses, &network::Address::loopback)) {
      grouped.add(Status::Notice, node->host,
                  fmt::format("the node's own name, {}, is {} there", own.name, own.addresses.front().text),
                  "have the admin remove it from that line of /etc/hosts: a program that publishes the address of its "
                  "own name publishes the loopback address (Gloo without GLOO_SOCKET_IFNAME, MPI)");
    }
  }
  return std::move(grouped).or_else(Status::Good, "resolves on every node");
}

Findings check_head_name(const JobContext& context) {
  Grouped grouped;
  std::string meaning;
  for (const TaskFacts* node : nodes_of(context)) {
    if (node->node.names.head.empty()) {
      continue;
    }
    if (const std::string reason = objection(*node, context); !reason.empty()) {
      grouped.add(Status::Bad, node->host, reason, kNamesAction);
    } else if (meaning.empty() || node->host != context.step.head_host) {
      const network::ResolvedName* const name = usable(node->node.names);
      meaning = meaning_of(*name) + " everywhere";
    }
  }
  find_disagreement(context, grouped);
  return std::move(grouped).or_else(meaning.empty() ? Status::Absent : Status::Good,
                                    meaning.empty() ? "no head node is known" : meaning);
}

Findings check_reverse_name(const JobContext& context) {
  Grouped grouped;
  std::string good;
  for (const TaskFacts* node : nodes_of(context)) {
    const NameFacts& names = node->node.names;
    if (names.reverse_address.empty()) {
      continue;
    }
    if (names.reverse_name.empty()) {
      grouped.add(
          Status::Notice, node->host, fmt::format("{} has no name", names.reverse_address),
          "ask the admin for a reverse DNS entry: torchrun and some MPI libraries look up the names of addresses");
    } else if (!names.reverse_name_leads_back) {
      grouped.add(Status::Notice, node->host,
                  fmt::format("{} is {}, which does not resolve to it", names.reverse_address, names.reverse_name),
                  "have the admin make forward and reverse entries agree (getent hosts NAME, getent hosts ADDRESS)");
    } else {
      good = fmt::format("{} is {}", names.reverse_address, names.reverse_name);
    }
  }
  return std::move(grouped).or_else(good.empty() ? Status::Absent : Status::Good,
                                    good.empty() ? "no address of the head node is known" : good);
}

}  // namespace rollcall::doctor
