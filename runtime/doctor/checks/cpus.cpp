#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {
namespace {

using Cores = std::vector<std::uint32_t>;

struct NodeCpus {
  std::string host;
  std::uint64_t online = 0;
  std::vector<Cores> ranks;
};

std::map<std::uint32_t, NodeCpus> by_node(const World& world) {
  std::map<std::uint32_t, NodeCpus> nodes;
  for (const TaskFacts& task : world.tasks) {
    NodeCpus& node = nodes[task.node_rank];
    node.host = task.host;
    node.online = std::max(node.online, task.node.cores);
    node.ranks.push_back(task.cores);
  }
  return nodes;
}

bool intersect(const Cores& a, const Cores& b) {
  Cores both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return !both.empty();
}

constexpr const char* kBind = "ask for cores: srun --cpus-per-task=N --cpu-bind=cores";

/// Ranks with the very same set share it on purpose (no binding); sets that only overlap are a wrong mask.
void judge(const NodeCpus& node, Grouped& grouped) {
  const std::size_t ranks = node.ranks.size();
  const Cores& first = node.ranks.front();
  const bool same = std::ranges::all_of(node.ranks, [&](const Cores& cores) { return cores == first; });
  if (first.empty() || ranks < 2) {
    return;
  }
  if (same && first.size() == 1 && node.online != 1) {
    grouped.add(Status::Bad, node.host, fmt::format("all {} ranks are on core {}", ranks, first.front()), kBind);
    return;
  }
  if (same && first.size() < ranks) {
    grouped.add(Status::Notice, node.host, fmt::format("{} ranks share {}", ranks, count_text(first.size(), "core")),
                kBind);
    return;
  }
  for (std::size_t i = 0; !same && i < ranks; ++i) {
    for (std::size_t j = i + 1; j < ranks; ++j) {
      if (intersect(node.ranks[i], node.ranks[j])) {
        grouped.add(Status::Notice, node.host, "some ranks share cores with others", kBind);
        return;
      }
    }
  }
}

}  // namespace

Findings check_cpus(const World& world) {
  Grouped grouped;
  std::size_t fewest = 0;
  for (const auto& [index, node] : by_node(world)) {
    judge(node, grouped);
    for (const Cores& cores : node.ranks) {
      fewest = fewest == 0 ? cores.size() : std::min(fewest, cores.size());
    }
  }
  return std::move(grouped).or_else(Status::Good, fmt::format("every rank has {}", count_text(fewest, "core")));
}

}  // namespace rollcall::doctor
