#include <fmt/format.h>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {

Findings check_answer(const World& world) {
  Grouped grouped;
  for (const Missing& missing : world.missing) {
    grouped.add(Status::Bad, missing.who, missing.reason,
                "look at what its ranks printed themselves, then log in there; srun --exclude=NODE leaves it out");
  }
  if (world.step.world_size == 1) {
    return std::move(grouped).or_else(Status::Absent,
                                      "one process: run srun rollcall doctor to ask all nodes of a job");
  }
  return std::move(grouped).or_else(Status::Good, fmt::format("all {} ranks on {} answered", world.step.world_size,
                                                              count_text(nodes_of(world).size(), "node")));
}

}  // namespace rollcall::doctor
