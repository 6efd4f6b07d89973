#include "runtime/rendezvous/endpoint.h"

#include <fmt/format.h>

#include "runtime/base/text.h"

namespace rollcall::rendezvous {

std::string to_text(const Endpoint& endpoint) {
  const bool ipv6 = endpoint.host.find(':') != std::string::npos;
  return ipv6 ? fmt::format("[{}]:{}", endpoint.host, endpoint.port)
              : fmt::format("{}:{}", endpoint.host, endpoint.port);
}

std::optional<Endpoint> parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  const auto port = parse_integer<std::uint16_t>(text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;
  }
  if (!port || *port == 0 || host.empty() || host.find_first_of(" \t\r\n[]") != std::string_view::npos) {
    return std::nullopt;
  }
  return Endpoint{std::string(host), *port};
}

}  // namespace rollcall::rendezvous
