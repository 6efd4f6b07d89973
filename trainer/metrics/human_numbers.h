#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rollcall::metrics {

/// Formats a size: "1.5 GiB", "312 B".
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

/// Formats a duration with its two largest units, rounded to the smaller one: "45 s", "3 min 05 s", "1 h 02 min",
/// "2 d 03 h". Negative durations are 0; infinite ones and NaN are "?".
[[nodiscard]] std::string human_duration(double seconds);

/// Formats seconds since the epoch in this machine's time zone: "2026-01-31 23:59:59 +0100"; "-" where the time is
/// invalid.
[[nodiscard]] std::string clock_text(double seconds);

/// Returns the seconds for `remaining_images` at `images_per_second`; nothing where the rate is unknown or 0.
[[nodiscard]] std::optional<double> remaining_seconds(std::int64_t remaining_images,
                                                      std::optional<double> images_per_second);

}  // namespace rollcall::metrics
