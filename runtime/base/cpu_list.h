#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rollcall {

/// Parses a CPU list in the kernel's notation: "0-3,8" is {0, 1, 2, 3, 8}. Invalid parts are skipped. Pure.
[[nodiscard]] std::vector<std::uint32_t> parse_cpu_list(const std::string& text);

}  // namespace rollcall
