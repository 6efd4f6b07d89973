#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace rollcall::settings {

/// The line, counted from 1, on which a byte beyond ASCII stands elsewhere than in a comment or between quotes on one
/// line; nothing where there is none. TOML 1.0 allows none there, and toml++ 3.3 has undefined behaviour for some of
/// them (is_non_ascii_horizontal_whitespace), so it must not see them. A byte order mark at the start is passed over.
/// Text within triple quotes counts as outside. Pure.
[[nodiscard]] std::optional<std::size_t> line_with_stray_character(std::string_view content);

}  // namespace rollcall::settings
