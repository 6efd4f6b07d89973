#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {
namespace {

/// "4 GPUs (NUMA 0 0 1 1)"
std::string devices_text(const std::vector<Device>& devices, const std::string& noun) {
  if (devices.empty()) {
    return "no " + noun;
  }
  std::string numa;
  for (const Device& device : devices) {
    numa += device.numa < 0 ? " ?" : fmt::format(" {}", device.numa);
  }
  return fmt::format("{} (NUMA{})", count_text(devices.size(), noun), numa);
}

std::string summary(const NodeFacts& node) {
  return devices_text(node.gpus, "GPU") + ", " + devices_text(node.adapters, "network adapter");
}

/// A GPU whose data must cross to another socket to reach the network.
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
    grouped.add(
        Status::Notice, task.host,
        fmt::format("Slurm gave {}, but /sys shows none", count_text(static_cast<std::size_t>(node.slurm_gpus), "GPU")),
        "look at nvidia-smi or rocm-smi on that node: is its driver loaded?");
  }
  for (const Device& adapter : node.adapters) {
    if (!adapter.active) {
      grouped.add(Status::Notice, task.host, fmt::format("network adapter {} has no active port", adapter.name),
                  "tell the admin, unless it is meant to be unused (ibstat)");
    }
  }
  if (has_far_gpu(node)) {
    grouped.add(Status::Notice, task.host, summary(node) + ": a GPU has no adapter on its NUMA node",
                "bind ranks to the GPUs next to the adapter (--gpu-bind=closest), or set interface.nccl");
  }
}

}  // namespace

Findings check_devices(const World& world) {
  Grouped grouped;
  const std::vector<const TaskFacts*> nodes = nodes_of(world);
  bool any = false;
  for (const TaskFacts* task : nodes) {
    any = any || !task->node.gpus.empty() || !task->node.adapters.empty();
    judge(*task, grouped);
    if (summary(task->node) != summary(nodes.front()->node)) {
      grouped.add(Status::Notice, task->host,
                  fmt::format("{}, on {} {}", summary(task->node), nodes.front()->host, summary(nodes.front()->node)),
                  "keep the job on nodes of one kind (--constraint), or look for a device that is lost");
    }
  }
  return std::move(grouped).or_else(any ? Status::Good : Status::Absent,
                                    nodes.empty() ? "no node answered" : summary(nodes.front()->node));
}

}  // namespace rollcall::doctor
