#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/doctor/checks/grouped.h"

namespace rollcall::doctor {
namespace {

/// The expected speed of the network between the nodes, and where the expectation comes from.
struct ExpectedSpeed {
  std::optional<double> gigabytes;  ///< GB/s of one TCP connection; unset: no expectation
  std::string gigabytes_reason;
  std::optional<double> microseconds;  ///< for one hop of a small message; unset: no expectation
  std::string microseconds_reason;
};

constexpr double kMostMegabits = 15'000;
constexpr double kMegabytesPerMegabit = 1.0 / 8;
constexpr double kHopMicroseconds = 500;

const InterfaceFacts* route_of(const NodeFacts& node) {
  const auto found = std::ranges::find(node.interfaces, node.route_interface, &InterfaceFacts::name);
  return found == node.interfaces.end() ? nullptr : &*found;
}

/// Returns the speed of the slowest node's interface to the other nodes; unset where one is unknown.
std::optional<double> slowest_megabits(const JobContext& context, std::string& why_not) {
  std::optional<double> slowest;
  for (const TaskFacts* task : nodes_of(context)) {
    const InterfaceFacts* const interface = route_of(task->node);
    if (interface == nullptr || interface->loopback || interface->megabits <= 0) {
      why_not = interface == nullptr  ? "the route to the other nodes is unknown"
                : interface->loopback ? "the connections stay on one machine"
                                      : interface->name + " does not report its speed";
      return std::nullopt;
    }
    const auto megabits = static_cast<double>(interface->megabits);
    slowest = slowest ? std::min(*slowest, megabits) : megabits;
  }
  return slowest;
}

/// Returns settings doctor.bandwidth and doctor.latency. Otherwise, where the speed of all nodes' interfaces is known,
/// half of the slowest, 15 Gbit/s at most, since one TCP connection reaches 15 to 35 Gbit/s on a 100 Gbit/s host
/// (ESnet, "Performance Expectations for a 100G Host", fasterdata.es.net, 2024), and 500 us per hop, several times a
/// switched network's round trip under TCP. Nothing where the connections stay on one machine. Pure.
ExpectedSpeed expected_speed(const JobContext& context) {
  ExpectedSpeed expected;
  std::string why_not = "there is one node";
  const bool network = nodes_of(context).size() > 1;
  const std::optional<double> megabits = network ? slowest_megabits(context, why_not) : std::nullopt;
  expected.gigabytes_reason = why_not;
  expected.microseconds_reason = why_not;
  if (megabits) {
    expected.gigabytes = std::min(*megabits / 2, kMostMegabits) * kMegabytesPerMegabit / 1e3;
    expected.gigabytes_reason = fmt::format("half of {:g} Mbit/s, at most 15 Gbit/s over one connection", *megabits);
    expected.microseconds = kHopMicroseconds;
    expected.microseconds_reason = "the built-in rule for a network of one site";
  }
  if (context.limits.gigabytes) {
    expected.gigabytes = context.limits.gigabytes;
    expected.gigabytes_reason = "doctor.bandwidth";
  }
  if (context.limits.microseconds) {
    expected.microseconds = context.limits.microseconds;
    expected.microseconds_reason = "doctor.latency";
  }
  return expected;
}

/// Returns the microseconds per hop of an all-reduce of a small vector, which takes 2 (n - 1) hops.
double hop_microseconds(const Measurement& small, std::uint32_t ranks) {
  return ranks < 2 ? 0 : small.seconds * 1e6 / (2.0 * (ranks - 1));
}

constexpr const char* kSpeedAction =
    "compare with iperf3 between two of the nodes; check that interface.gloo and MASTER_ADDR use the fast network";

std::string text_of(const CollectiveRow& row) {
  return fmt::format("{} of {} {:.0f} us, {:.2g} GB/s", row.operation, bytes_text(static_cast<double>(row.bytes)),
                     row.seconds * 1e6, row.gigabytes);
}

/// Judges the rows of `backend`.
Finding judge_speed(const std::vector<CollectiveRow>& rows, const std::string& backend) {
  std::string seen;
  for (const CollectiveRow& row : rows) {
    if (row.backend != backend) {
      continue;
    }
    if (!row.correct) {
      return {Status::Bad,
              {},
              fmt::format("{}: {} of {} bytes gave a wrong result on some rank", backend, row.operation, row.bytes),
              "use another --backend for training, and exclude nodes with --exclude until the results are right"};
    }
    seen += (seen.empty() ? "" : "; ") + text_of(row);
  }
  return {Status::Good, {}, fmt::format("{}: {}", backend, seen), ""};
}

/// Returns the finding for a program's message, which may end with an action.
Finding failure(const std::string& message) {
  const std::size_t action = message.find("; try ");
  return {Status::Bad,
          {},
          message.substr(0, action),
          action == std::string::npos
              ? "run `srun --ddp rollcall-bench-collectives` with the same options: all ranks print their errors there"
              : message.substr(action + 2)};
}

}  // namespace

Findings check_speed(const JobContext& context) {
  const Benchmark& benchmark = context.benchmark;
  if (!benchmark.error.empty()) {
    return {{Status::Bad, {}, benchmark.error, "solve the checks above first, then run rollcall doctor again"}};
  }
  if (benchmark.rows.empty()) {
    return {{Status::Absent, {}, benchmark.absent.empty() ? "not measured" : benchmark.absent, ""}};
  }
  const ExpectedSpeed expected = expected_speed(context);
  const double hop = hop_microseconds(benchmark.rows.front(), benchmark.ranks);
  const double gigabytes = benchmark.rows.back().gigabytes;
  const std::string seen = fmt::format("all-reduce {:.3g} GB/s per link, {:.3g} us per hop", gigabytes, hop);
  Findings findings;
  // A miss of a rule of thumb is a notice; a miss of a configured expectation is a failure.
  if (expected.gigabytes && gigabytes < *expected.gigabytes) {
    findings.push_back(
        {context.limits.gigabytes ? Status::Bad : Status::Notice,
         {},
         fmt::format("{}; at least {:.3g} GB/s is expected: {}", seen, *expected.gigabytes, expected.gigabytes_reason),
         kSpeedAction});
  }
  if (expected.microseconds && hop > *expected.microseconds) {
    findings.push_back({context.limits.microseconds ? Status::Bad : Status::Notice,
                        {},
                        fmt::format("{}; at most {:.3g} us per hop is expected: {}", seen, *expected.microseconds,
                                    expected.microseconds_reason),
                        kSpeedAction});
  }
  if (findings.empty()) {
    const std::string rule = expected.gigabytes ? fmt::format("; expected at least {:.3g} GB/s: {}",
                                                              *expected.gigabytes, expected.gigabytes_reason)
                                                : "; no expectation: " + expected.gigabytes_reason;
    findings.push_back({Status::Good, {}, seen + rule, ""});
  }
  return findings;
}

Findings check_collectives(const JobContext& context) {
  const Collectives& collectives = context.collectives;
  if (!collectives.error.empty()) {
    return {failure(collectives.error)};
  }
  if (collectives.rows.empty()) {
    return {{Status::Absent, {}, collectives.absent.empty() ? "not measured" : collectives.absent, ""}};
  }
  Findings findings;
  std::vector<std::string> judged;
  for (const CollectiveRow& row : collectives.rows) {
    if (std::ranges::find(judged, row.backend) == judged.end()) {
      judged.push_back(row.backend);
      findings.push_back(judge_speed(collectives.rows, row.backend));
    }
  }
  return findings;
}

}  // namespace rollcall::doctor
