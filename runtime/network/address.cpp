#include "runtime/network/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstring>

namespace rollcall::network {
namespace {

Address from_ipv4(in_addr address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &address, text.data(), text.size());
  const std::uint32_t bits = ntohl(address.s_addr);
  return Address{text.data(), true, (bits >> 24) == 127, (bits >> 16) == 0xa9feU};
}

Address from_ipv6(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address) != 0) {
    in_addr inner{};
    std::memcpy(&inner, &address.s6_addr[12], sizeof inner);
    return from_ipv4(inner);
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, &address, text.data(), text.size());
  return Address{text.data(), false, IN6_IS_ADDR_LOOPBACK(&address) != 0, IN6_IS_ADDR_LINKLOCAL(&address) != 0};
}

}  // namespace

std::optional<Address> from_sockaddr(const sockaddr* address) {
  if (address == nullptr) {
    return std::nullopt;
  }
  if (address->sa_family == AF_INET) {
    sockaddr_in ipv4{};
    std::memcpy(&ipv4, address, sizeof ipv4);
    return from_ipv4(ipv4.sin_addr);
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 ipv6{};
    std::memcpy(&ipv6, address, sizeof ipv6);
    return from_ipv6(ipv6.sin6_addr);
  }
  return std::nullopt;
}

}  // namespace rollcall::network
