#include "runtime/elastic/option_values.h"

#include <utility>

#include "runtime/base/text.h"

namespace rollcall::elastic {

std::optional<std::int64_t> python_integer(std::string_view text) {
  text = trim(text);
  const bool negative = text.starts_with('-');
  text.remove_prefix(negative || text.starts_with('+') ? 1 : 0);
  std::string digits(negative ? "-" : "");
  bool after_digit = false;  // underscores are allowed between two digits
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(c == '_' && after_digit)) {
      return std::nullopt;
    }
    after_digit = digit;
    digits += digit ? std::string(1, c) : "";
  }
  return after_digit ? parse_integer<std::int64_t>(digits) : std::nullopt;
}

std::optional<std::uint32_t> python_count(std::string_view text) {
  const std::optional<std::int64_t> number = python_integer(text);
  return number && std::in_range<std::uint32_t>(*number) ? std::optional(static_cast<std::uint32_t>(*number))
                                                         : std::nullopt;
}

Error refuse(const settings::Settings& values, std::string_view name, std::string reason, std::string action) {
  return fail(values.is_default(name) ? "--" + std::string(name) : values.value(name).origin, values.text(name),
              std::move(reason), std::move(action));
}

}  // namespace rollcall::elastic
