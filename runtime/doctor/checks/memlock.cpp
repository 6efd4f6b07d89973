#include <fmt/format.h>

#include <limits>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

bool has_adapter(const World& world) {
  for (const TaskFacts* task : nodes_of(world)) {
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

Findings check_memlock(const World& world) {
  if (world.tasks.empty() || !has_adapter(world)) {
    const std::string limit = world.tasks.empty() ? "unknown" : limit_text(world.tasks.front().locked_memory);
    return {{Status::Absent, {}, fmt::format("{}; no network adapter here needs locked memory", limit), ""}};
  }
  Grouped grouped;
  for (const TaskFacts& task : world.tasks) {
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
