#pragma once

#include <optional>
#include <string>

#include "runtime/doctor/world.h"

namespace rollcall::doctor {

/// What the network between the nodes should do, and who says so.
struct Expectation {
  std::optional<double> gigabytes;  ///< GB/s that one TCP connection carries; nothing: no expectation
  std::string gigabytes_reason;
  std::optional<double> microseconds;  ///< for one hop of a small message
  std::string microseconds_reason;
};

/// Settings doctor.bandwidth and doctor.latency; otherwise, where all nodes' interfaces tell their speed: half of the
/// slowest, 15 Gbit/s at most, since one TCP connection reaches 15 to 35 Gbit/s on a 100 Gbit/s host (ESnet,
/// "Performance Expectations for a 100G Host", fasterdata.es.net, 2024), and 500 us a hop, several times a switched
/// network's round trip under TCP. Nothing where the connections stay on one machine. Pure.
[[nodiscard]] Expectation expectation_of(const World& world);

/// Microseconds for one hop of an all-reduce of a small vector, which takes 2 (n - 1) of them.
[[nodiscard]] double hop_microseconds(const Measurement& small, std::uint32_t ranks);

}  // namespace rollcall::doctor
