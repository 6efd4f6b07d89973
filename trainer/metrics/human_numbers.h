#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rollcall::metrics {

/// "1.5 GiB", "312 B".
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

/// "45 s", "3 min 05 s", "1 h 02 min", "2 d 03 h": the two largest units, rounded to the smaller one. Negative counts
/// as 0; infinite or NaN is "?".
[[nodiscard]] std::string human_duration(double seconds);

/// Seconds since the epoch as a time of this machine's zone, which it names: "2026-01-31 23:59:59 +0100"; "-" where
/// there is no such time.
[[nodiscard]] std::string clock_text(double seconds);

/// Seconds until `remaining_images` are done at `images_per_second`; nothing where the rate is unknown or 0.
[[nodiscard]] std::optional<double> remaining_seconds(std::int64_t remaining_images,
                                                      std::optional<double> images_per_second);

}  // namespace rollcall::metrics
