#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <string>

#include "runtime/base/text.h"
#include "runtime/doctor/checks/grouped.h"
#include "runtime/job/gpu_request.h"

namespace rollcall::doctor {
namespace {

/// Returns "4 GPUs (NUMA 0 0 1 1)".
std::string devices_text(const std::vector<Device>& devices, const std::string& noun) {
  if (devices.empty()) {
    return "no " + noun;
  }
  std::string numa;
  for (const Device& device : devices) {
    numa += device.numa < 0 ? " ?" : fmt::format(" {}", device.numa);
  }
  return fmt::format("{} (NUMA{})", counted(devices.size(), noun), numa);
}

std::string summary(const NodeFacts& node) {
  return devices_text(node.gpus, "GPU") + ", " + devices_text(node.adapters, "network adapter");
}

/// Returns whether a GPU's data must cross to another socket to reach the network.
bool has_far_gpu(const NodeFacts& node) {
  const auto is_far = [&](const Device& gpu) {
    return gpu.numa >= 0 && std::ranges::none_of(node.adapters, [&](const Device& adapter) {
             return adapter.active && (adapter.numa < 0 || adapter.numa == gpu.numa);
           });
  };
  return !node.adapters.empty() && std::ranges::any_of(node.gpus, is_far);
}

void judge(const TaskFacts& task, Grouped& grouped) {
  const NodeFacts& node = task.node;
  if (node.slurm_gpus > 0 && node.gpus.empty()) {
    grouped.add(Status::Notice, task.host,
                fmt::format("Slurm allocated {}, but /sys shows none",
                            counted(static_cast<std::size_t>(node.slurm_gpus), "GPU")),
                "run nvidia-smi or rocm-smi on that node to see whether its driver is loaded");
  }
  for (const Device& adapter : node.adapters) {
    if (!adapter.active) {
      grouped.add(Status::Notice, task.host, fmt::format("network adapter {} has no active port", adapter.name),
                  "inform the admin, unless it is unused on purpose (ibstat)");
    }
  }
  if (has_far_gpu(node)) {
    grouped.add(Status::Notice, task.host, summary(node) + ": a GPU has no adapter on its NUMA node",
                "let NCCL choose among all GPUs of the node (" + job::gpus_for_every_task(node.gpus.size()) +
                    "), or set interface.nccl");
  }
}

using Cores = std::vector<std::uint32_t>;

struct NodeCpus {
  std::string host;
  std::uint64_t online = 0;
  std::vector<Cores> ranks;
};

std::map<std::uint32_t, NodeCpus> by_node(const JobContext& context) {
  std::map<std::uint32_t, NodeCpus> nodes;
  for (const TaskFacts& task : context.tasks) {
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

constexpr const char* kBind = "request cores: srun --cpus-per-task=N --cpu-bind=cores";

/// Checks the core sets: equal sets are shared on purpose (no binding); overlapping ones are a wrong mask.
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
    grouped.add(Status::Notice, node.host, fmt::format("{} ranks share {}", ranks, counted(first.size(), "core")),
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

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

bool has_adapter(const JobContext& context) {
  for (const TaskFacts* task : nodes_of(context)) {
    if (!task->node.adapters.empty()) {
      return true;
    }
  }
  return false;
}

std::string limit_text(std::uint64_t limit) {
  return limit == kUnlimited ? "unlimited" : bytes_text(static_cast<double>(limit));
}

}  // namespace

Findings check_devices(const JobContext& context) {
  Grouped grouped;
  const std::vector<const TaskFacts*> nodes = nodes_of(context);
  bool any = false;
  for (const TaskFacts* task : nodes) {
    any = any || !task->node.gpus.empty() || !task->node.adapters.empty();
    judge(*task, grouped);
    if (summary(task->node) != summary(nodes.front()->node)) {
      grouped.add(Status::Notice, task->host,
                  fmt::format("{}, on {} {}", summary(task->node), nodes.front()->host, summary(nodes.front()->node)),
                  "keep the job on nodes of one kind (--constraint), or check for a missing device");
    }
  }
  return std::move(grouped).or_else(any ? Status::Good : Status::Absent,
                                    nodes.empty() ? "no node answered" : summary(nodes.front()->node));
}

Findings check_cpus(const JobContext& context) {
  Grouped grouped;
  std::size_t fewest = 0;
  for (const auto& [index, node] : by_node(context)) {
    judge(node, grouped);
    for (const Cores& cores : node.ranks) {
      fewest = fewest == 0 ? cores.size() : std::min(fewest, cores.size());
    }
  }
  return std::move(grouped).or_else(Status::Good, fmt::format("every rank has {}", counted(fewest, "core")));
}

Findings check_memlock(const JobContext& context) {
  if (context.tasks.empty() || !has_adapter(context)) {
    const std::string limit = context.tasks.empty() ? "unknown" : limit_text(context.tasks.front().locked_memory);
    return {{Status::Absent, {}, fmt::format("{}; no network adapter here needs locked memory", limit), ""}};
  }
  Grouped grouped;
  for (const TaskFacts& task : context.tasks) {
    // NCCL and UCX register the memory that they send from, which counts as locked (getrlimit(2), RLIMIT_MEMLOCK).
    if (task.locked_memory != kUnlimited) {
      grouped.add(Status::Bad, task.host, fmt::format("only {} may be locked", limit_text(task.locked_memory)),
                  "have the admin set LimitMEMLOCK=infinity for slurmd; PropagateResourceLimitsExcept=MEMLOCK in "
                  "slurm.conf keeps a login node's limit out");
    }
  }
  return std::move(grouped).or_else(Status::Good, "unlimited");
}

}  // namespace rollcall::doctor
