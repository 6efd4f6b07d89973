#pragma once

#include <cstdint>
#include <string>

namespace rollcall::metrics {

/// "1.5 GiB", "312 B".
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

}  // namespace rollcall::metrics
