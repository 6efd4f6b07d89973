#include "trainer/report/html.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/text.h"

namespace rollcall::report {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : printable(std::string(text))) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string html_table(std::string_view caption, const std::vector<std::vector<std::string>>& rows) {
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption>{0}"
      "</caption>\n",
      escaped(caption));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    html += row == 0 ? "<thead><tr>" : "<tr>";
    for (std::size_t column = 0; column < rows[row].size(); ++column) {
      const std::string cell = escaped(rows[row][column]);
      if (row == 0) {
        html += fmt::format("<th scope=\"col\">{}</th>", cell);
      } else {
        html += column == 0 ? fmt::format("<th scope=\"row\">{}</th>", cell) : fmt::format("<td>{}</td>", cell);
      }
    }
    html += row == 0 ? "</tr></thead>\n<tbody>\n" : "</tr>\n";
  }
  return html + (rows.empty() ? "" : "</tbody>") + "</table></div>\n";
}

std::string json_text(std::string_view text) {
  std::string json = nlohmann::json(printable(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at)) {
    json.replace(at, 1, "\\u003c");
  }
  return json;
}

std::string percent(double fraction) { return fmt::format("{:.{}f} %", 100 * fraction, fraction < 0.0995 ? 1 : 0); }

std::string short_number(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value)) {
    return "-";
  }
  for (const auto& [unit, suffix] : {std::pair{1e9, 'G'}, std::pair{1e6, 'M'}, std::pair{1e3, 'k'}}) {
    if (size >= 1e5 && size >= unit && size < 1e3 * unit) {
      return fmt::format("{:.4g}{}", value / unit, suffix);
    }
  }
  if (size >= 1e5 || (size < 1e-3 && size > 0)) {
    return fmt::format("{:.3g}", value);
  }
  return size >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

}  // namespace rollcall::report
