#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {

Findings check_environment(const World& world) {
  Grouped grouped;
  for (const TaskFacts& task : world.tasks) {
    if (!task.resolve_error.empty()) {
      grouped.add(Status::Bad, task.host, task.resolve_error, "run rollcall env --verbose on that node");
    }
    for (const std::string& warning : task.warnings) {
      grouped.add(Status::Notice, task.host, warning, "run rollcall env --verbose on that node");
    }
  }
  return std::move(grouped).or_else(Status::Good, "resolves on every node");
}

}  // namespace rollcall::doctor
