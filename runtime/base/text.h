#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall {

/// Parses all of `text` as a decimal integer. Nothing where it is empty, has other characters, or does not fit into T.
template <std::integral T>
[[nodiscard]] std::optional<T> parse_integer(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

/// Splits `text` at every `separator`. "a,,b" has an empty part in the middle; "" has no parts.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

/// Removes leading and trailing blanks, tabs and line ends.
[[nodiscard]] std::string_view trim(std::string_view text);

/// Returns the shortest candidate that begins with `word` (dashes alone begin nothing), or the first with the smallest
/// edit distance, at most a third of the longer word, or 1: for "did you mean ...". Two swapped neighbours count as one
/// error (Damerau, CACM 1964; optimal string alignment).
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "1 rank", "2 ranks": a number with its noun. `plural` is what ending in "s" does not give: "classes".
template <std::integral T>
[[nodiscard]] std::string counted(T number, std::string_view noun, std::string_view plural = {}) {
  std::string text = std::to_string(number) + " ";
  text += number == 1 || plural.empty() ? noun : plural;
  return number == 1 || !plural.empty() ? text : text + "s";
}

/// Returns "10.78.0.1:20000" or, with brackets around an IPv6 address (RFC 3986, 3.2.2), "[fe80::1]:20000".
[[nodiscard]] std::string host_and_port(std::string_view host, std::string_view port);

/// Replaces each control character by '?', including C1 controls (as UTF-8 or single bytes) and characters that reorder
/// text (U+202E). The result is one line that cannot control the terminal or page that shows it. Call it for all text
/// from users, files or other nodes before printing. Other bytes above 0x7f stay, because names may be in UTF-8 or an
/// older encoding.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace rollcall
