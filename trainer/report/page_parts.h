#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "trainer/report/run.h"

namespace rollcall::report {

/// Colours that lines of a chart have in turn; also told apart by how they are dashed.
inline constexpr std::size_t kColours = 8;

/// The style sheet and the script of the page.
[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view page_script();

/// `text` as a JSON string that ends no `<script>`; bytes that are no text are replaced.
[[nodiscard]] std::string json_text(std::string_view text);

/// A `<figure>`: what ranks did by themselves in a step, over time, the slowest marked. Empty where nothing is
/// recorded.
[[nodiscard]] std::string heat_map_html(const Run& run);

}  // namespace rollcall::report
