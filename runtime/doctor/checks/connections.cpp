#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/text.h"
#include "runtime/doctor/checks/grouped.h"

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

Findings check_answer(const JobContext& context) {
  Grouped grouped;
  for (const Missing& missing : context.missing) {
    grouped.add(Status::Bad, missing.who, missing.reason,
                "read the output of its ranks, then log in there; srun --exclude=NODE omits the node");
  }
  if (!context.missing.empty() && !context.last_rejected.empty()) {
    grouped.add(
        Status::Bad, context.tasks.front().host, fmt::format("rank 0 rejected {}", context.last_rejected),
        "give all ranks one secret: start them with srun --ddp, or set rendezvous.secret to a file of yours that "
        "all nodes see");
  }
  if (context.step.world_size == 1) {
    return std::move(grouped).or_else(Status::Absent,
                                      "one process: run srun rollcall doctor to ask all nodes of a job");
  }
  return std::move(grouped).or_else(Status::Good, fmt::format("all {} ranks on {} answered", context.step.world_size,
                                                              counted(nodes_of(context).size(), "node")));
}

Findings check_interface(const JobContext& context) {
  Grouped grouped;
  std::string good;
  for (const TaskFacts* task : nodes_of(context)) {
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
                                    good.empty() ? "not set: the libraries choose an interface" : good);
}

Findings check_head_port(const JobContext& context) {
  if (context.step.world_size == 1) {
    return {{Status::Absent, {}, "one process needs no port", ""}};
  }
  Grouped grouped;
  std::string good;
  for (const TaskFacts& task : context.tasks) {
    const HeadFacts& head = task.head;
    if (!head.error.empty()) {
      const std::string where = head.endpoint.empty() ? "rank 0" : head.endpoint;
      const std::string used = head.used.empty() ? "" : fmt::format("; {} works", head.used);
      grouped.add(Status::Bad, task.host, fmt::format("{}: {}{}", where, head.error, used),
                  "check MASTER_ADDR and MASTER_PORT with rollcall env; set host.template or port.range so that all "
                  "nodes reach the head");
    } else if (!head.silent_addresses.empty()) {
      grouped.add(Status::Notice, task.host,
                  fmt::format("{}: {} does not answer, another of its addresses does: PyTorch's store tries IPv6 first "
                              "and may wait two minutes for each",
                              head.endpoint, fmt::join(head.silent_addresses, ", ")),
                  "unset MASTER_ADDR, so that rollcall chooses an address that works, or set it to that address");
    } else if (task.rank > 0) {
      good = head.endpoint + " answers every rank";
    }
  }
  return std::move(grouped).or_else(good.empty() ? Status::Absent : Status::Good,
                                    good.empty() ? "no other rank answered" : good);
}

Findings check_ring(const JobContext& context) {
  Grouped grouped;
  for (const RingLink& link : context.ring) {
    if (!link.error.empty()) {
      grouped.add(Status::Bad, link.from, fmt::format("does not reach {} on a free port: {}", link.to, link.error),
                  "ask the admin about a firewall between compute nodes; try --exclude=NODE with one of the two");
    }
  }
  return std::move(grouped).or_else(context.ring.empty() ? Status::Absent : Status::Good,
                                    context.ring.empty() ? "fewer than two nodes can be connected"
                                                         : fmt::format("{} of {} connected", context.ring.size(),
                                                                       counted(context.ring.size(), "link")));
}

Findings check_clock(const JobContext& context) {
  Grouped grouped;
  double largest = 0;
  for (const ClockReading& clock : context.clocks) {
    const double off = std::abs(clock.ahead_seconds);
    largest = std::max(largest, off);
    // Only a difference beyond the measurement's uncertainty counts.
    if (off - clock.uncertainty_seconds > context.limits.clock_seconds) {
      grouped.add(
          Status::Bad, clock.host,
          fmt::format("{:.3g} s {} rank 0's node", off, clock.ahead_seconds > 0 ? "ahead of" : "behind"),
          "have the admin repair time synchronisation (chronyc tracking): checkpoints and logs are ordered by time");
    }
  }
  return std::move(grouped).or_else(
      context.clocks.empty() ? Status::Absent : Status::Good,
      context.clocks.empty() ? "one node has one clock" : fmt::format("at most {:.3g} ms apart", largest * 1e3));
}

}  // namespace rollcall::doctor
