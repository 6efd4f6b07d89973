#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/elastic/membership.h"

namespace rollcall::elastic {

// After the hello (runtime/rendezvous/handshake.h), frames hold one message each, as compact JSON; an
// Order::Kind::World as that deflated (RFC 1950).

[[nodiscard]] std::string to_text(const Report& report);
[[nodiscard]] std::string to_text(const Order& order);

/// The reverse; nothing where the text is no such message, or has a number that no agent says: an exit code that is
/// none, a node without workers. A reader believes no size in it.
[[nodiscard]] std::optional<Report> parse_report(std::string_view text);
[[nodiscard]] std::optional<Order> parse_order(std::string_view text);

}  // namespace rollcall::elastic
