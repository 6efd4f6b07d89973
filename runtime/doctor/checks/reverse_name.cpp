#include <fmt/format.h>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {

Findings check_reverse_name(const World& world) {
  Grouped grouped;
  std::string good;
  for (const TaskFacts* node : nodes_of(world)) {
    const NameFacts& names = node->node.names;
    if (names.reverse_address.empty()) {
      continue;
    }
    if (names.reverse_name.empty()) {
      grouped.add(Status::Notice, node->host, fmt::format("{} has no name", names.reverse_address),
                  "ask the admin for a reverse entry: torchrun and some MPI stacks turn addresses back into names");
    } else if (!names.reverse_name_leads_back) {
      grouped.add(Status::Notice, node->host,
                  fmt::format("{} is {}, which does not lead back to it", names.reverse_address, names.reverse_name),
                  "have the admin make forward and reverse entries agree (getent hosts NAME, getent hosts ADDRESS)");
    } else {
      good = fmt::format("{} is {}", names.reverse_address, names.reverse_name);
    }
  }
  return std::move(grouped).or_else(good.empty() ? Status::Absent : Status::Good,
                                    good.empty() ? "no address of the head node is known" : good);
}

}  // namespace rollcall::doctor
