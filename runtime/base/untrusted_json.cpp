#include "runtime/base/untrusted_json.h"

#include <utility>

namespace rollcall {
namespace {

/// Recognizes strings and brackets like a parser up to the first invalid byte, where a parser stops as well.
bool is_within(std::string_view text, const JsonLimits& limits) {
  std::size_t depth = 0;
  std::size_t values = 1;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '[' || c == '{') {
      depth += 1;
      values += 1;
    } else if (c == ']' || c == '}') {
      depth -= depth > 0 ? 1 : 0;
    } else {
      in_string = c == '"';
      values += c == ',' ? 1 : 0;
    }
    if (depth > limits.depth || values > limits.values) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<nlohmann::json> parse_untrusted(std::string_view text, JsonLimits limits) {
  if (!is_within(text, limits)) {
    return std::nullopt;
  }
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_discarded() ? std::nullopt : std::optional(std::move(parsed));
}

}  // namespace rollcall
