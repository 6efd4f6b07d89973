#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rollcall::report {

/// `text` for the content of an element or a quoted attribute: nothing in it is markup, no control character stays.
[[nodiscard]] std::string escaped(std::string_view text);

/// A table with a caption; the first row holds the headings, the first cell of each row names it. Cells are escaped.
[[nodiscard]] std::string html_table(std::string_view caption, const std::vector<std::vector<std::string>>& rows);

/// "12 %", "9.4 %" of a fraction.
[[nodiscard]] std::string percent(double fraction);

/// A number for people: four significant digits, from 100,000 on in thousands and so on: "10500", "150k", "2.5M".
[[nodiscard]] std::string short_number(double value);

/// `text` as a JSON string that ends no `<script>`; bytes that are no text are replaced.
[[nodiscard]] std::string json_text(std::string_view text);

/// The style sheet and the script of the page: page.css and page.js.
[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view page_script();

}  // namespace rollcall::report
