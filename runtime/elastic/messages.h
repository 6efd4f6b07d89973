#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/elastic/membership.h"

namespace rollcall::elastic {

// After the hello (runtime/rendezvous/handshake.h), each frame holds one message as compact JSON. An Order::Kind::World
// is compressed in addition (RFC 1950).

[[nodiscard]] std::string to_text(const Report& report);
[[nodiscard]] std::string to_text(const Order& order);

/// Parses a message; unset where the text is not one, or has an impossible number, such as an exit code out of range or
/// a node without workers. No size in the text is trusted.
[[nodiscard]] std::optional<Report> parse_report(std::string_view text);
[[nodiscard]] std::optional<Order> parse_order(std::string_view text);

}  // namespace rollcall::elastic
