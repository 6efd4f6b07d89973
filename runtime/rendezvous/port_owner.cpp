#include "runtime/rendezvous/port_owner.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "runtime/base/text.h"

namespace rollcall::rendezvous {
namespace {

constexpr std::string_view kListening = "0A";  // TCP_LISTEN

/// Of "0100007F:7347", an address and a port in hexadecimal digits.
std::optional<std::uint16_t> port_in_table(const std::string& local) {
  const std::size_t colon = local.rfind(':');
  std::uint16_t port = 0;
  const char* const end = local.data() + local.size();
  const bool read =
      colon != std::string::npos && std::from_chars(local.data() + colon + 1, end, port, 16).ec == std::errc();
  return read ? std::optional(port) : std::nullopt;
}

bool is_loopback(const sockaddr_in& address) { return ntohl(address.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET; }

/// The port where both ends of the connection have one address, which is this host's. Who connects to 127.0.1.1, where
/// Debian has a host's own name, is 127.0.0.1 itself.
std::optional<std::uint16_t> peer_port_on_this_host(int descriptor) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_length = sizeof own;
  socklen_t peer_length = sizeof peer;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 ||
      getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0 ||
      own.ss_family != peer.ss_family) {
    return std::nullopt;
  }
  const auto& own_6 = reinterpret_cast<const sockaddr_in6&>(own);
  const auto& peer_6 = reinterpret_cast<const sockaddr_in6&>(peer);
  const auto& own_4 = reinterpret_cast<const sockaddr_in&>(own);
  const auto& peer_4 = reinterpret_cast<const sockaddr_in&>(peer);
  const bool same =
      own.ss_family == AF_INET6
          ? std::memcmp(&own_6.sin6_addr, &peer_6.sin6_addr, sizeof own_6.sin6_addr) == 0
          : own.ss_family == AF_INET && (own_4.sin_addr.s_addr == peer_4.sin_addr.s_addr || is_loopback(peer_4));
  // The port stands at the same place in both (RFC 3493, 3.3).
  return same ? std::optional(ntohs(peer_4.sin_port)) : std::nullopt;
}

std::string process_of(const std::vector<uid_t>& users) {
  return users.empty() ? "another process" : fmt::format("a process of user {}", fmt::join(users, ", "));
}

}  // namespace

std::vector<uid_t> listening_users(std::istream& table, std::uint16_t port) {
  std::vector<uid_t> users;
  std::string line;
  std::getline(table, line);  // the columns' names
  while (std::getline(table, line)) {
    std::istringstream stream(line);
    const std::vector<std::string> fields(std::istream_iterator<std::string>(stream), {});
    // Number, local and remote address, state, queues, timer, retransmissions, user.
    if (fields.size() < 8 || fields[3] != kListening) {
      break;
    }
    const auto user = parse_integer<uid_t>(fields[7]);
    if (user && port_in_table(fields[1]) == port && std::ranges::find(users, *user) == users.end()) {
      users.push_back(*user);
    }
  }
  return users;
}

std::vector<uid_t> listening_users(std::uint16_t port) {
  std::vector<uid_t> all;
  for (const char* const name : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream table(name);
    for (const uid_t user : listening_users(table, port)) {
      if (std::ranges::find(all, user) == all.end()) {
        all.push_back(user);
      }
    }
  }
  return all;
}

std::string listener_text(std::uint16_t port) { return process_of(listening_users(port)); }

std::string stranger_at_other_end(int descriptor) {
  const std::optional<std::uint16_t> port = peer_port_on_this_host(descriptor);
  const std::vector<uid_t> users = port ? listening_users(*port) : std::vector<uid_t>();
  const bool strangers = !users.empty() && std::ranges::find(users, geteuid()) == users.end();
  return strangers ? process_of(users) + " listens there" : "";
}

}  // namespace rollcall::rendezvous
