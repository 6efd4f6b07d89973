#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall {

/// The whole of `text` as a decimal integer; nothing for an empty text, signs where T has none, leftovers or overflow.
template <std::integral T>
[[nodiscard]] std::optional<T> parse_integer(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

/// Splits at every `separator`; "a,,b" gives an empty middle part, "" gives no part at all.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

/// Without leading and trailing blanks, tabs and line ends.
[[nodiscard]] std::string_view trim(std::string_view text);

/// The candidate with the smallest edit distance to `word`, if it is near enough to be a typing error: at most a third
/// of the longer word, at least 1. Two neighbours swapped count as one error (Damerau, CACM 1964, as optimal string
/// alignment). First of equals wins. For "did you mean ...".
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "1 rank", "2 ranks": a number with its noun. `plural` is what ending in "s" does not give: "classes".
template <std::integral T>
[[nodiscard]] std::string counted(T number, std::string_view noun, std::string_view plural = {}) {
  std::string text = std::to_string(number) + " ";
  text += number == 1 || plural.empty() ? noun : plural;
  return number == 1 || !plural.empty() ? text : text + "s";
}

/// "10.78.0.1:20000", "[fe80::1]:20000": an IPv6 address stands in brackets (RFC 3986, 3.2.2).
[[nodiscard]] std::string host_and_port(std::string_view host, std::string_view port);

/// `text` with each control character replaced by '?', C1 too, as UTF-8 or as a byte, and each that reorders the others
/// (U+202E): one line that cannot steer the terminal or the page on which it is shown. Everything that holds a user's,
/// a file's or another node's bytes passes through here before it is printed. Other bytes above 0x7f stay: names may be
/// UTF-8 or of an older encoding.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace rollcall
