#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace rollcall {

// How a rank tells others whether it succeeded.

/// Empty for success, else the Error's fields with a NUL between them; a NUL inside of one becomes '?'.
[[nodiscard]] std::string serialise(const Result<void>& outcome);

/// The other way round; nothing for a text that serialise() does not make.
[[nodiscard]] std::optional<Result<void>> parse_outcome(std::string_view text);

}  // namespace rollcall
