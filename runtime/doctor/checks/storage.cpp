#include <fmt/format.h>

#include "runtime/doctor/checks/grouped.h"

namespace rollcall::doctor {
namespace {

/// A checkpoint of a model with 1 G parameters and its optimizer's state has about 12 GB (4 + 8 bytes a parameter).
constexpr double kLittleSpace = 20e9;
constexpr double kLittleShare = 0.02;

double share_of(std::uint64_t free, std::uint64_t total) {
  return total == 0 ? 1 : static_cast<double>(free) / static_cast<double>(total);
}

void judge_storage(const TaskFacts& task, Grouped& grouped) {
  const FolderFacts& folder = task.node.scratch;
  if (!folder.error.empty()) {
    grouped.add(Status::Bad, task.host, fmt::format("{} cannot be written: {}", folder.path, folder.error),
                "check the path, its permissions and your quota on that node (quota, lfs quota)");
    return;
  }
  if (!folder.purge_warning.empty()) {
    grouped.add(Status::Notice, task.host, folder.purge_warning,
                "copy what you still need to a project folder or archive");
  }
  if (static_cast<double>(folder.free_bytes) < kLittleSpace) {
    grouped.add(Status::Notice, task.host,
                fmt::format("{} has only {} left", folder.path, bytes_text(static_cast<double>(folder.free_bytes))),
                "free space before a long run: a checkpoint that does not fit is not saved");
  }
  if (share_of(folder.free_inodes, folder.total_inodes) < kLittleShare) {
    grouped.add(Status::Notice, task.host,
                fmt::format("{} has only {} of {} inodes left", folder.path, folder.free_inodes, folder.total_inodes),
                "pack small files (rollcall-pack) or remove some");
  }
}

/// NVIDIA's NCCL user guide (Troubleshooting, Shared memory) recommends 1 GB for containers; their default is 64 MB.
constexpr double kEnough = 1e9;

}  // namespace

Findings check_scratch(const JobContext& context) {
  Grouped grouped;
  std::string good;
  for (const TaskFacts* task : nodes_of(context)) {
    const FolderFacts& folder = task->node.scratch;
    if (!folder.path.empty()) {
      judge_storage(*task, grouped);
      good = fmt::format("{} can be written, {} free", folder.path, bytes_text(static_cast<double>(folder.free_bytes)));
    }
  }
  return std::move(grouped).or_else(good.empty() ? Status::Absent : Status::Good,
                                    good.empty() ? "neither SCRATCH nor setting scratch.folder names a folder" : good);
}

Findings check_shm(const JobContext& context) {
  Grouped grouped;
  double smallest = 0;
  for (const TaskFacts* task : nodes_of(context)) {
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
