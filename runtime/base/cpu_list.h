#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rollcall {

/// "0-3,8" as {0, 1, 2, 3, 8}, as the kernel writes lists of CPUs; what does not parse is passed over. Pure.
[[nodiscard]] std::vector<std::uint32_t> parse_cpu_list(const std::string& text);

}  // namespace rollcall
