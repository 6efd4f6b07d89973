#pragma once

#include <sys/socket.h>

#include <optional>

#include "runtime/network/network_view.h"

namespace rollcall::network {

/// The address in a sockaddr, classified: loopback is 127/8, ::1 and their IPv4-mapped forms; link-local is 169.254/16
/// and fe80::/10. Nothing where it is neither IPv4 nor IPv6. IPv4-mapped IPv6 addresses come out as IPv4. Pure.
[[nodiscard]] std::optional<Address> from_sockaddr(const sockaddr* address);

}  // namespace rollcall::network
