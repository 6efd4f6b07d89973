#include <fmt/format.h>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {
namespace {

/// NVIDIA's NCCL user guide (Troubleshooting, Shared memory) asks containers for 1 GB; their default is 64 MB.
constexpr double kEnough = 1e9;

}  // namespace

Findings check_shm(const World& world) {
  Grouped grouped;
  double smallest = 0;
  for (const TaskFacts* task : nodes_of(world)) {
    const auto bytes = static_cast<double>(task->node.shm_bytes);
    smallest = smallest == 0 ? bytes : std::min(smallest, bytes);
    if (bytes < kEnough) {
      grouped.add(Status::Notice, task->host,
                  bytes == 0 ? "there is no /dev/shm" : fmt::format("/dev/shm has only {}", bytes_text(bytes)),
                  "start the container with --shm-size=1g or more, or use fewer data loader workers");
    }
  }
  return std::move(grouped).or_else(Status::Good, fmt::format("/dev/shm has {}", bytes_text(smallest)));
}

}  // namespace rollcall::doctor
