#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/expectation.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {
namespace {

const Measurement* row_of(const Benchmark& benchmark, bool largest) {
  const Measurement* found = nullptr;
  for (const Measurement& row : benchmark.rows) {
    const bool better = found == nullptr || (largest ? row.bytes > found->bytes : row.bytes < found->bytes);
    if (row.operation == "all-reduce" && better) {
      found = &row;
    }
  }
  return found;
}

constexpr const char* kAction =
    "compare with iperf3 between two of the nodes; check interface.gloo and MASTER_ADDR: is this the fast network?";

}  // namespace

Findings check_speed(const World& world) {
  const Benchmark& benchmark = world.benchmark;
  if (!benchmark.error.empty()) {
    return {{Status::Bad, {}, benchmark.error, "look at the checks above first, then run doctor again"}};
  }
  const Measurement* const small = row_of(benchmark, false);
  const Measurement* const large = row_of(benchmark, true);
  if (small == nullptr || large == nullptr) {
    return {{Status::Absent, {}, "not measured", ""}};
  }
  const Expectation expected = expectation_of(world);
  const double hop = hop_microseconds(*small, benchmark.ranks);
  const std::string seen = fmt::format("all-reduce {:.3g} GB/s a link, {:.3g} us a hop", large->gigabytes, hop);
  Findings findings;
  // A rule of thumb deserves a notice; an expectation that somebody wrote down deserves more.
  if (expected.gigabytes && large->gigabytes < *expected.gigabytes) {
    findings.push_back(
        {world.limits.gigabytes ? Status::Bad : Status::Notice,
         {},
         fmt::format("{}; at least {:.3g} GB/s is expected: {}", seen, *expected.gigabytes, expected.gigabytes_reason),
         kAction});
  }
  if (expected.microseconds && hop > *expected.microseconds) {
    findings.push_back({world.limits.microseconds ? Status::Bad : Status::Notice,
                        {},
                        fmt::format("{}; at most {:.3g} us a hop is expected: {}", seen, *expected.microseconds,
                                    expected.microseconds_reason),
                        kAction});
  }
  if (findings.empty()) {
    const std::string rule = expected.gigabytes ? fmt::format("; expected at least {:.3g} GB/s: {}",
                                                              *expected.gigabytes, expected.gigabytes_reason)
                                                : "; no expectation: " + expected.gigabytes_reason;
    findings.push_back({Status::Good, {}, seen + rule, ""});
  }
  return findings;
}

}  // namespace rollcall::doctor
