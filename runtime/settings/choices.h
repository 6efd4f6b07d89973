#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <string_view>

namespace rollcall::settings {

template <const auto&... kParts>
inline constexpr auto kJoinedNames = [] {
  std::array<char, 512> text{};  // more does not compile
  auto end = text.begin();
  const auto add = [&](std::string_view words) {
    end = std::ranges::copy(std::string_view(end == text.begin() ? "" : "|"), end).out;
    end = std::ranges::copy(words, end).out;
  };
  const auto add_part = [&](const auto& part) {
    if constexpr (std::convertible_to<decltype(part), std::string_view>) {
      add(part);
    } else {
      for (const auto& row : part) {
        add(row.name);
      }
    }
  };
  (add_part(kParts), ...);
  return text;
}();

/// The choices of a setting, such as "none|adamw|sgd". A part is a word, or a table whose rows have names.
template <const auto&... kParts>
inline constexpr std::string_view kChoicesOf = kJoinedNames<kParts...>.data();

}  // namespace rollcall::settings
