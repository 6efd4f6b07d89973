#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::data {

/// The whole content of a file. Errors: NoInput where it cannot be opened, InputOutput where reading fails half-way.
/// Thread-safe.
[[nodiscard]] Result<std::vector<std::byte>> read_file(const std::string& path);

}  // namespace rollcall::data
