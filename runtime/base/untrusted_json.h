#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace rollcall {

/// What a text may hold to be read: objects and arrays in one another, and values in all.
struct JsonLimits {
  std::size_t depth = 16;
  std::size_t values = std::size_t{1} << 19;
};

/// The JSON of `text`, which somebody else wrote: it came over a connection, or out of a file that another program
/// made. Nothing where it is none, or exceeds `limits`: a value takes up to a hundred bytes of memory, a bracket in the
/// text one. Counted are brackets and commas, in one look before anything is made of them. Never throws for what `text`
/// says.
[[nodiscard]] std::optional<nlohmann::json> parse_untrusted(std::string_view text, JsonLimits limits = {});

}  // namespace rollcall
