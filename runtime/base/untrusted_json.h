#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace rollcall {

/// Limits for JSON text from other processes.
struct JsonLimits {
  std::size_t depth = 16;                     ///< nesting of objects and arrays
  std::size_t values = std::size_t{1} << 19;  ///< number of values
};

/// Parses JSON text from a connection or from another program's file. Nothing where it is not JSON or exceeds `limits`,
/// which are checked first by counting brackets and commas: one byte of text may otherwise take a hundred bytes of
/// memory. Never throws because of `text`.
[[nodiscard]] std::optional<nlohmann::json> parse_untrusted(std::string_view text, JsonLimits limits = {});

}  // namespace rollcall
