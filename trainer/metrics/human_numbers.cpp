#include "trainer/metrics/human_numbers.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

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

std::string human_duration(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  constexpr double kDay = 86400;
  if (!std::isfinite(seconds)) {
    return "?";
  }
  // Rounded to the smaller unit before the larger is chosen, so that 59.7 s is "1 min 00 s" and never "60 s".
  const auto whole = static_cast<std::int64_t>(std::lround(std::max(seconds, 0.0)));
  if (static_cast<double>(whole) < kMinute) {
    return fmt::format("{} s", whole);
  }
  if (static_cast<double>(whole) < kHour) {
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  }
  const auto minutes = static_cast<std::int64_t>(std::lround(seconds / kMinute));
  if (static_cast<double>(minutes) < kDay / kMinute) {
    return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
  }
  const auto hours = static_cast<std::int64_t>(std::lround(seconds / kHour));
  return fmt::format("{} d {:02} h", hours / 24, hours % 24);
}

std::string clock_text(double seconds) {
  constexpr double kLatest = 1e11;  // later years have five digits, and localtime(3) fails at some point
  return seconds > 0 && seconds < kLatest
             ? fmt::format("{:%Y-%m-%d %H:%M:%S %z}", fmt::localtime(static_cast<std::time_t>(seconds)))
             : "-";
}

std::optional<double> remaining_seconds(std::int64_t remaining_images, std::optional<double> images_per_second) {
  if (!images_per_second || *images_per_second <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(std::max<std::int64_t>(remaining_images, 0)) / *images_per_second;
}

}  // namespace rollcall::metrics
