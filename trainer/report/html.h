#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rollcall::report {

/// Escapes `text` for the content of an element or a quoted attribute, and replaces control characters.
[[nodiscard]] std::string escaped(std::string_view text);

/// Returns a table with a caption. The first row has the headings, and the first cell of each row is its heading. Cells
/// are escaped.
[[nodiscard]] std::string html_table(std::string_view caption, const std::vector<std::vector<std::string>>& rows);

/// Formats a fraction: "12 %", "9.4 %".
[[nodiscard]] std::string percent(double fraction);

/// Formats a number with four significant digits, and from 100,000 on with a unit: "10500", "150k", "2.5M".
[[nodiscard]] std::string short_number(double value);

/// Returns `text` as a JSON string that cannot end a `<script>`. Invalid UTF-8 is replaced.
[[nodiscard]] std::string json_text(std::string_view text);

/// These return the style sheet and the script of the page: page.css and page.js.
[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view page_script();

}  // namespace rollcall::report
