#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::data {

/// Reads the whole content of a file into `buffer`, which only grows, and gives the part that it fills.
/// Errors: NoInput where it cannot be opened, InputOutput where reading fails half-way. Thread-safe.
[[nodiscard]] Result<std::span<const std::byte>> read_file(const std::string& path, std::vector<std::byte>& buffer);

}  // namespace rollcall::data
