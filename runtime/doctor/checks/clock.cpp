#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {

Findings check_clock(const World& world) {
  Grouped grouped;
  double largest = 0;
  for (const ClockReading& clock : world.clocks) {
    const double off = std::abs(clock.ahead_seconds);
    largest = std::max(largest, off);
    // Only what is beyond the doubt of the measurement counts.
    if (off - clock.uncertainty_seconds > world.limits.clock_seconds) {
      grouped.add(Status::Bad, clock.host,
                  fmt::format("{:.3g} s {} rank 0's node", off, clock.ahead_seconds > 0 ? "ahead of" : "behind"),
                  "have the admin mend time synchronisation (chronyc tracking): checkpoints and logs order by time");
    }
  }
  return std::move(grouped).or_else(
      world.clocks.empty() ? Status::Absent : Status::Good,
      world.clocks.empty() ? "one node has one clock" : fmt::format("at most {:.3g} ms apart", largest * 1e3));
}

}  // namespace rollcall::doctor
