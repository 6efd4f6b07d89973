#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rollcall::rendezvous {

/// Where rank 0 listens.
struct Endpoint {
  std::string host;  ///< a name or an address, without brackets
  std::uint16_t port = 0;
};

/// "jwb0001i:29500", "[fd00::1]:29500".
[[nodiscard]] std::string to_text(const Endpoint& endpoint);
/// The reverse of to_text; nothing where `text` is no endpoint or the port is 0.
[[nodiscard]] std::optional<Endpoint> parse_endpoint(std::string_view text);

}  // namespace rollcall::rendezvous
