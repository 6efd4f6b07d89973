#include "runtime/doctor/checks/expectation.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {
namespace {

constexpr double kMostMegabits = 15'000;
constexpr double kMegabytesPerMegabit = 1.0 / 8;
constexpr double kHopMicroseconds = 500;

const InterfaceFacts* route_of(const NodeFacts& node) {
  const auto found = std::ranges::find(node.interfaces, node.route_interface, &InterfaceFacts::name);
  return found == node.interfaces.end() ? nullptr : &*found;
}

/// The slowest node's interface towards the others; nothing where one does not tell.
std::optional<double> slowest_megabits(const World& world, std::string& why_not) {
  std::optional<double> slowest;
  for (const TaskFacts* task : nodes_of(world)) {
    const InterfaceFacts* const interface = route_of(task->node);
    if (interface == nullptr || interface->loopback || interface->megabits <= 0) {
      why_not = interface == nullptr  ? "the route to the other nodes is unknown"
                : interface->loopback ? "the connections stay on one machine"
                                      : interface->name + " does not tell its speed";
      return std::nullopt;
    }
    const auto megabits = static_cast<double>(interface->megabits);
    slowest = slowest ? std::min(*slowest, megabits) : megabits;
  }
  return slowest;
}

}  // namespace

Expectation expectation_of(const World& world) {
  Expectation expected;
  std::string why_not = "there is one node";
  const bool network = nodes_of(world).size() > 1;
  const std::optional<double> megabits = network ? slowest_megabits(world, why_not) : std::nullopt;
  expected.gigabytes_reason = why_not;
  expected.microseconds_reason = why_not;
  if (megabits) {
    expected.gigabytes = std::min(*megabits / 2, kMostMegabits) * kMegabytesPerMegabit / 1e3;
    expected.gigabytes_reason = fmt::format("half of {:g} Mbit/s, at most 15 Gbit/s over one connection", *megabits);
    expected.microseconds = kHopMicroseconds;
    expected.microseconds_reason = "the built-in rule for a network of one site";
  }
  if (world.limits.gigabytes) {
    expected.gigabytes = world.limits.gigabytes;
    expected.gigabytes_reason = "doctor.bandwidth";
  }
  if (world.limits.microseconds) {
    expected.microseconds = world.limits.microseconds;
    expected.microseconds_reason = "doctor.latency";
  }
  return expected;
}

double hop_microseconds(const Measurement& small, std::uint32_t ranks) {
  return ranks < 2 ? 0 : small.seconds * 1e6 / (2.0 * (ranks - 1));
}

}  // namespace rollcall::doctor
