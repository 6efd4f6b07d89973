#include <fmt/format.h>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {

Findings check_venv(const World& world) {
  Grouped grouped;
  std::string good;
  for (const TaskFacts* task : nodes_of(world)) {
    const VenvFacts& venv = task->node.venv;
    if (!venv.error.empty()) {
      grouped.add(Status::Bad, task->host, fmt::format("{}: {}", venv.path, venv.error),
                  "make it anew on a compute node, or load the module of its Python before srun");
    } else if (!venv.path.empty()) {
      good = fmt::format("{} runs Python {}", venv.path, venv.version);
    }
  }
  return std::move(grouped).or_else(good.empty() ? Status::Absent : Status::Good,
                                    good.empty() ? "neither setting venv nor VIRTUAL_ENV is set" : good);
}

}  // namespace rollcall::doctor
