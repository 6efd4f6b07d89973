#include "runtime/base/text.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace rollcall {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last;
  std::vector<std::size_t> last(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> row(b.size() + 1);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last = std::exchange(last, std::move(row));
  }
  return last[b.size()];
}

/// Returns the length of the UTF-8 character at the front of `text` (The Unicode Standard, table 3-7), or 1 where there
/// is none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xc0U) == 0x80; };
  const unsigned first = byte(0);
  const unsigned second = byte(1);
  if (first < 0xc2 || first > 0xf4 || !continues(1)) {
    return 1;
  }
  if (first < 0xe0) {
    return 2;
  }
  // An overlong encoding, a UTF-16 surrogate, or a code point beyond U+10FFFF.
  const bool no_character = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                            (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  if (no_character || !continues(2)) {
    return 1;
  }
  return first < 0xf0 ? 3 : continues(3) ? 4 : 1;
}

/// Returns whether the first character of `text`, which has `length` bytes, is a control character of ASCII or of ISO
/// 6429's second set ("C1", 0x80 to 0x9f), which terminals obey as a byte or as UTF-8.
bool is_control(std::string_view text, std::size_t length) {
  const auto first = static_cast<unsigned char>(text[0]);
  const bool c1 = length == 1 ? first >= 0x80 && first < 0xa0
                              : length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
  return c1 || first < 0x20 || first == 0x7f;
}

/// Returns whether a character reorders the characters around it or ends their line (Unicode's Bidi_Control, U+2028 and
/// U+2029). Such a character can make a name look like another one.
bool reorders(std::string_view character) {
  constexpr std::array<std::string_view, 14> kReordering{"\u061c", "\u200e", "\u200f", "\u2028", "\u2029",
                                                         "\u202a", "\u202b", "\u202c", "\u202d", "\u202e",
                                                         "\u2066", "\u2067", "\u2068", "\u2069"};
  return std::ranges::find(kReordering, character) != kReordering.end();
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
    if (text.empty()) {
      parts.emplace_back();
    }
  }
  return parts;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const bool has_letters = word.find_first_not_of('-') != std::string_view::npos;
  std::optional<std::string> best;
  std::pair<bool, std::size_t> best_rank;
  for (const std::string& candidate : candidates) {
    const bool is_completion = has_letters && candidate.starts_with(word);
    const std::size_t distance = edit_distance(word, candidate);
    const std::size_t allowed = std::max<std::size_t>(1, std::max(word.size(), candidate.size()) / 3);
    const std::pair rank(!is_completion, distance);
    if ((is_completion || distance <= allowed) && (!best || rank < best_rank)) {
      best = candidate;
      best_rank = rank;
    }
  }
  return best;
}

std::string host_and_port(std::string_view host, std::string_view port) {
  const bool ipv6 = host.find(':') != std::string_view::npos;
  return std::string(ipv6 ? "[" : "").append(host).append(ipv6 ? "]:" : ":").append(port);
}

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::string_view left = text; !left.empty();) {
    const std::size_t length = character_length(left);
    const bool steers = is_control(left, length) || reorders(left.substr(0, length));
    shown += steers ? std::string_view("?") : left.substr(0, length);
    left.remove_prefix(length);
  }
  return shown;
}

}  // namespace rollcall
