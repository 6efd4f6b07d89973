#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::elastic {

/// What Python's int() makes of a text: "+3", " 3 ", "1_000". Nothing where it refuses it, or for 64 bits and more.
[[nodiscard]] std::optional<std::int64_t> python_integer(std::string_view text);

/// The same, where it fits into 32 bits and is not negative.
[[nodiscard]] std::optional<std::uint32_t> python_count(std::string_view text);

/// The option's value is refused: named as the user wrote it, by option or PET_* variable.
[[nodiscard]] Error refuse(const settings::Settings& values, std::string_view name, std::string reason,
                           std::string action);

}  // namespace rollcall::elastic
