#include "trainer/metrics/human_bytes.h"

#include <fmt/format.h>

#include <array>

namespace rollcall::metrics {

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) {
    return fmt::format("{} B", bytes);
  }
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < units.size(); ++unit) {
    value /= 1024;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace rollcall::metrics
