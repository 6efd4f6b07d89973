#include <fmt/format.h>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {

Findings check_head_port(const World& world) {
  if (world.step.world_size == 1) {
    return {{Status::Absent, {}, "one process needs no port", ""}};
  }
  Grouped grouped;
  std::string good;
  for (const TaskFacts& task : world.tasks) {
    const HeadFacts& head = task.head;
    if (!head.error.empty()) {
      const std::string where = head.endpoint.empty() ? "rank 0" : head.endpoint;
      const std::string used = head.used.empty() ? "" : fmt::format("; {} works", head.used);
      grouped.add(Status::Bad, task.host, fmt::format("{}: {}{}", where, head.error, used),
                  "check MASTER_ADDR and MASTER_PORT with rollcall env; set host.template or port.range so that all "
                  "nodes reach the head");
    } else if (task.rank > 0) {
      good = head.endpoint + " answers every rank";
    }
  }
  return std::move(grouped).or_else(good.empty() ? Status::Absent : Status::Good,
                                    good.empty() ? "no other rank answered" : good);
}

}  // namespace rollcall::doctor
