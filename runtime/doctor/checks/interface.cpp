#include <fmt/format.h>

#include <algorithm>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {
namespace {

std::string list_of(const NodeFacts& node) {
  std::string list;
  for (const InterfaceFacts& interface : node.interfaces) {
    list += fmt::format("{}{}{}", list.empty() ? "" : ", ", interface.name, interface.up ? "" : " (down)");
  }
  return list.empty() ? "none" : list;
}

}  // namespace

Findings check_interface(const World& world) {
  Grouped grouped;
  std::string good;
  for (const TaskFacts* task : nodes_of(world)) {
    for (const InterfaceUse& use : task->node.interface_uses) {
      if (!use.error.empty()) {
        grouped.add(Status::Bad, task->host, fmt::format("{}: {}", use.setting, use.error),
                    fmt::format("set {} to one of {}", use.setting, list_of(task->node)));
      } else if (!use.value.empty()) {
        good += good.find(use.setting) != std::string::npos
                    ? ""
                    : fmt::format("{}{} is {}", good.empty() ? "" : ", ", use.setting, use.value);
      }
    }
  }
  return std::move(grouped).or_else(good.empty() ? Status::Absent : Status::Good,
                                    good.empty() ? "none is set: the libraries choose themselves" : good);
}

}  // namespace rollcall::doctor
