#include <fmt/format.h>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {

Findings check_ring(const World& world) {
  Grouped grouped;
  for (const RingLink& link : world.ring) {
    if (!link.error.empty()) {
      grouped.add(Status::Bad, link.from, fmt::format("does not reach {} on a free port: {}", link.to, link.error),
                  "ask the admin whether a firewall stands between compute nodes; try --exclude of one of the two");
    }
  }
  return std::move(grouped).or_else(
      world.ring.empty() ? Status::Absent : Status::Good,
      world.ring.empty() ? "not two nodes that could be connected"
                         : fmt::format("{} of {} connected", world.ring.size(), count_text(world.ring.size(), "link")));
}

}  // namespace rollcall::doctor
