#pragma once

#include <chrono>
#include <cstdint>

namespace rollcall::doctor {

/// Nanoseconds since 1970 by this node's clock: what is compared between nodes.
[[nodiscard]] inline std::int64_t wall_clock_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace rollcall::doctor
