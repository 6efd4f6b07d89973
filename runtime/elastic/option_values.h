#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::elastic {

/// Parses a number as Python's int() does: "+3", " 3 ", "1_000". Unset where int() fails or 64 bits do not suffice.
[[nodiscard]] std::optional<std::int64_t> python_integer(std::string_view text);

/// Parses a number likewise; unset also where it is negative or needs more than 32 bits.
[[nodiscard]] std::optional<std::uint32_t> python_count(std::string_view text);

/// Returns an error for the option's value, named as the user wrote it: by option or PET_* variable.
[[nodiscard]] Error refuse(const settings::Settings& values, std::string_view name, std::string reason,
                           std::string action);

}  // namespace rollcall::elastic
