#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/doctor/checks/grouped.h"
#include "runtime/job/gpu_request.h"

namespace rollcall::doctor {
namespace {

/// A node's ranks, by local rank.
struct Node {
  std::vector<const TaskFacts*> ranks;
  std::size_t gpus = 0;  ///< GPUs of the step on this node

  [[nodiscard]] const std::string& host() const { return ranks.front()->host; }
};

/// Returns Slurm's count of GPUs; without one, all GPUs that any rank sees.
std::size_t gpus_of(const Node& node) {
  std::set<std::string> seen;
  std::size_t count = 0;
  for (const TaskFacts* rank : node.ranks) {
    count = std::max(count, static_cast<std::size_t>(std::max<std::int64_t>(rank->node.slurm_gpus, 0)));
    for (const Device& gpu : rank->gpus.visible) {
      seen.insert(gpu.name);
    }
  }
  return count > 0 ? count : seen.size();
}

std::vector<Node> nodes_with_ranks(const JobContext& context) {
  std::map<std::uint32_t, Node> by_rank;
  for (const TaskFacts& task : context.tasks) {
    by_rank[task.node_rank].ranks.push_back(&task);
  }
  std::vector<Node> nodes;
  for (auto& [rank, node] : by_rank) {
    std::ranges::sort(node.ranks, {}, &TaskFacts::local_rank);
    node.gpus = gpus_of(node);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

/// Returns whether a rank sees a part of a GPU, whose device file and location are unknown.
bool has_mig(const Node& node) {
  return std::ranges::any_of(node.ranks, [](const TaskFacts* rank) {
    return std::ranges::any_of(rank->gpus.visible, [](const Device& gpu) { return gpu.name.starts_with("MIG-"); });
  });
}

/// Returns the GPU that a program selects by LOCAL_RANK, or the only visible one; null: none.
const Device* own_gpu(const TaskFacts& rank) {
  const std::vector<Device>& visible = rank.gpus.visible;
  const std::size_t index = visible.size() == 1 ? 0 : rank.local_rank;
  return index < visible.size() ? &visible[index] : nullptr;
}

std::string ask_for_all(const Node& node) {
  return "request GPUs per node, so that every rank sees them: " + job::gpus_for_every_task(node.gpus);
}

/// Checks whether every rank reaches all GPUs of its node. NCCL looks beyond CUDA_VISIBLE_DEVICES, but cannot use a GPU
/// whose device file it may not open.
bool judge_visibility(const Node& node, Grouped& grouped) {
  const auto blind =
      std::ranges::count_if(node.ranks, [](const TaskFacts* rank) { return rank->gpus.visible.empty(); });
  if (blind > 0) {
    grouped.add(
        Status::Notice, node.host(),
        fmt::format("{} of {} {} no GPU", blind, counted(node.ranks.size(), "rank"), blind == 1 ? "sees" : "see"),
        ask_for_all(node));
    return false;
  }
  std::uint64_t fewest = node.gpus;
  for (const TaskFacts* rank : node.ranks) {
    fewest = std::min(fewest, rank->gpus.openable);
  }
  if (node.ranks.size() > 1 && fewest < node.gpus) {
    grouped.add(Status::Notice, node.host(),
                fmt::format("a rank can open {} of its node's {} GPUs, and NCCL reaches the others only through main "
                            "memory or the network",
                            fewest, node.gpus),
                ask_for_all(node));
    return false;
  }
  return true;
}

void judge_share(const Node& node, Grouped& grouped) {
  std::set<std::string> used;
  for (const TaskFacts* rank : node.ranks) {
    if (const Device* gpu = own_gpu(*rank)) {
      used.insert(gpu->name);
    }
  }
  const std::size_t ranks = node.ranks.size();
  if (ranks > used.size()) {
    grouped.add(Status::Notice, node.host(),
                fmt::format("{} ranks share {}, and NCCL does not allow two ranks on one GPU", ranks,
                            counted(used.size(), "GPU")),
                ranks > node.gpus
                    ? fmt::format("start one rank per GPU: --ntasks-per-node={}", node.gpus)
                    : "give every rank a GPU of its own, and check whether CUDA_VISIBLE_DEVICES is the same for all");
  } else if (ranks < node.gpus) {
    grouped.add(Status::Notice, node.host(),
                fmt::format("{} on a node with {} GPUs: a program with one GPU per rank leaves {} idle",
                            counted(ranks, "rank"), node.gpus, node.gpus - ranks),
                fmt::format("start one rank per GPU: --ntasks-per-node={}", node.gpus));
  }
}

/// Checks NUMA nodes: memory, network and data workers on another NUMA node are farther from the GPU.
void judge_numa(const Node& node, Grouped& grouped) {
  std::vector<std::string> far;
  std::vector<int> wanted;
  for (const TaskFacts* rank : node.ranks) {
    const Device* const gpu = own_gpu(*rank);
    if (gpu == nullptr || gpu->numa < 0 || rank->numa_nodes.empty()) {
      continue;
    }
    wanted.push_back(gpu->numa);
    if (std::ranges::count(rank->numa_nodes, gpu->numa) == 0) {
      far.push_back(fmt::format("local rank {}'s CPUs are on NUMA node {}, its GPU is on {}", rank->local_rank,
                                fmt::join(rank->numa_nodes, " "), gpu->numa));
    }
  }
  if (!far.empty()) {
    grouped.add(
        Status::Notice, node.host(), fmt::format("{}", fmt::join(far, "; ")),
        wanted.size() == node.ranks.size()
            ? fmt::format("bind each rank to its GPU's NUMA node: --cpu-bind=map_ldom:{}", fmt::join(wanted, ","))
            : "bind each rank to its GPU's NUMA node");
  }
}

}  // namespace

Findings check_gpus(const JobContext& context) {
  const std::vector<Node> nodes = nodes_with_ranks(context);
  const auto sees_some = [](const TaskFacts& task) { return !task.gpus.visible.empty(); };
  if (std::ranges::none_of(context.tasks, sees_some)) {
    return {{Status::Absent, {}, "no rank sees a GPU", ""}};
  }
  Grouped grouped;
  for (const Node& node : nodes) {
    if (node.gpus == 0) {  // for instance a component for CPUs
      continue;
    }
    if (has_mig(node)) {
      grouped.add(Status::Notice, node.host(), "parts of GPUs (MIG): not checked whether ranks reach each other's GPUs",
                  "request whole GPUs where ranks train together: parts have neither NVLink nor PCIe between them");
      continue;
    }
    if (judge_visibility(node, grouped)) {
      judge_share(node, grouped);
    }
    judge_numa(node, grouped);
  }
  const Node& first = *std::ranges::find_if(nodes, [](const Node& node) { return node.gpus > 0; });
  return std::move(grouped).or_else(
      Status::Good, fmt::format("{}, {} on each node: one GPU per rank, and each rank reaches all of them",
                                counted(first.ranks.size(), "rank"), counted(first.gpus, "GPU")));
}

}  // namespace rollcall::doctor
