#include "runtime/rendezvous/port_owner.h"

#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "runtime/base/text.h"

namespace rollcall::rendezvous {
namespace {

constexpr std::string_view kListening = "0A";  // TCP_LISTEN
constexpr std::array kTables{"/proc/self/net/tcp", "/proc/self/net/tcp6"};

/// Parses the port of "0100007F:7347", an address and a port in hexadecimal digits.
std::optional<std::uint16_t> port_in_table(const std::string& local) {
  const std::size_t colon = local.rfind(':');
  std::uint16_t port = 0;
  const char* const end = local.data() + local.size();
  const bool read =
      colon != std::string::npos && std::from_chars(local.data() + colon + 1, end, port, 16).ec == std::errc();
  return read ? std::optional(port) : std::nullopt;
}

/// A socket in a table.
struct Row {
  std::string local;
  std::string remote;
  bool listening = false;
  bool held = false;  ///< owned by a process; unaccepted and closed sockets are listed as root's
  uid_t user = 0;
};

std::optional<Row> parse_row(const std::string& line) {
  std::istringstream stream(line);
  const std::vector<std::string> fields(std::istream_iterator<std::string>(stream), {});
  // Fields: number, local and remote address, state, queues, timer, retransmissions, user, probes, inode.
  const auto user = fields.size() < 8 ? std::nullopt : parse_integer<uid_t>(fields[7]);
  const bool held = fields.size() > 9 && fields[9] != "0";
  return user ? std::optional(Row{fields[1], fields[2], fields[3] == kListening, held, *user}) : std::nullopt;
}

bool is_loopback(const sockaddr_in& address) { return ntohl(address.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET; }
/// Checks an IPv4 address in a socket of both families.
bool is_loopback(const sockaddr_in6& address) {
  return IN6_IS_ADDR_V4MAPPED(&address.sin6_addr) && address.sin6_addr.s6_addr[12] == IN_LOOPBACKNET;
}

std::string in_table(const sockaddr_in& address) {
  return fmt::format("{:08X}:{:04X}", address.sin_addr.s_addr, ntohs(address.sin_port));
}

std::string in_table(const sockaddr_in6& address) {
  std::array<std::uint32_t, 4> words{};
  std::memcpy(words.data(), &address.sin6_addr, sizeof words);
  return fmt::format("{:08X}{:08X}{:08X}{:08X}:{:04X}", words[0], words[1], words[2], words[3],
                     ntohs(address.sin6_port));
}

/// A connection from its peer's view.
struct PeerEnd {
  std::uint16_t port = 0;  ///< the peer's port
  std::string local;       ///< as in a table
  std::string remote;
  bool one_address =
      false;  ///< both ends have the same address, or the peer a loopback one: it is, or was, on this host
  inet_diag_req_v2 query{};  ///< asks for this socket only, sock_diag(7)
};

/// Returns the peer; unset where `descriptor` is not connected. A client of 127.0.1.1, to which Debian maps a host's
/// own name, is 127.0.0.1 itself. A peer on this host may use another of its addresses: any client can bind(2) to one.
std::optional<PeerEnd> peer_of(int descriptor) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_length = sizeof own;
  socklen_t peer_length = sizeof peer;
  const bool known = getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_length) == 0 &&
                     getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0;
  const bool six = own.ss_family == AF_INET6;
  if (!known || own.ss_family != peer.ss_family || (!six && own.ss_family != AF_INET)) {
    return std::nullopt;
  }
  const auto& own_6 = reinterpret_cast<const sockaddr_in6&>(own);
  const auto& peer_6 = reinterpret_cast<const sockaddr_in6&>(peer);
  const auto& own_4 = reinterpret_cast<const sockaddr_in&>(own);
  const auto& peer_4 = reinterpret_cast<const sockaddr_in&>(peer);
  PeerEnd end{ntohs(peer_4.sin_port),
              six ? in_table(peer_6) : in_table(peer_4),  // the port has the same offset in both
              six ? in_table(own_6) : in_table(own_4)};
  end.one_address =
      six ? std::memcmp(&own_6.sin6_addr, &peer_6.sin6_addr, sizeof own_6.sin6_addr) == 0 || is_loopback(peer_6)
          : own_4.sin_addr.s_addr == peer_4.sin_addr.s_addr || is_loopback(peer_4);
  end.query.sdiag_family = static_cast<std::uint8_t>(own.ss_family);
  end.query.sdiag_protocol = IPPROTO_TCP;
  end.query.idiag_states = ~0U;
  inet_diag_sockid& id = end.query.id;
  id.idiag_sport = peer_4.sin_port;
  id.idiag_dport = own_4.sin_port;
  std::memcpy(static_cast<void*>(id.idiag_src), six ? static_cast<const void*>(&peer_6.sin6_addr) : &peer_4.sin_addr,
              six ? sizeof peer_6.sin6_addr : sizeof peer_4.sin_addr);
  std::memcpy(static_cast<void*>(id.idiag_dst), six ? static_cast<const void*>(&own_6.sin6_addr) : &own_4.sin_addr,
              six ? sizeof own_6.sin6_addr : sizeof own_4.sin_addr);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return end;
}

/// Returns the kernel's answer to `query`; unset where it does not know the socket or the request.
std::optional<inet_diag_msg> ask_kernel(const inet_diag_req_v2& query) {
  const int descriptor = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  struct {
    nlmsghdr header;
    inet_diag_req_v2 query;
  } request{{sizeof request, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0}, query};
  alignas(nlmsghdr) std::array<char, 4096> answer{};
  std::optional<inet_diag_msg> found;
  if (descriptor >= 0 && send(descriptor, &request, sizeof request, 0) == sizeof request &&
      recv(descriptor, answer.data(), answer.size(), 0) >= static_cast<ssize_t>(NLMSG_LENGTH(sizeof *found))) {
    const auto& header = reinterpret_cast<const nlmsghdr&>(answer);
    if (header.nlmsg_type == SOCK_DIAG_BY_FAMILY) {
      found.emplace();
      std::memcpy(&*found, answer.data() + NLMSG_HDRLEN, sizeof *found);
    }
  }
  close(descriptor);
  return found;
}

/// The peer's socket: whether it is on this host, and the user of its process; unset where no process owns it any
/// longer, or yet.
struct Found {
  bool here = false;
  std::optional<uid_t> user;
};

/// Finds the same in the tables, whose length is the number of the host's connections.
std::optional<Found> find_in_tables(const PeerEnd& end) {
  for (const char* const name : kTables) {
    std::ifstream table(name);
    std::string line;
    while (std::getline(table, line)) {
      const auto row = line.find(end.local) == std::string::npos ? std::nullopt : parse_row(line);
      // A socket of both families has the other family's addresses with a prefix.
      if (row && !row->listening && row->local.ends_with(end.local) && row->remote.ends_with(end.remote)) {
        return Found{true, row->held ? std::optional(row->user) : std::nullopt};
      }
    }
  }
  return std::nullopt;
}

Found find(const PeerEnd& end) {
  const auto found = ask_kernel(end.query);
  if (found && found->id.idiag_dport == end.query.id.idiag_dport) {  // not a listener
    return {true, found->idiag_inode != 0 ? std::optional<uid_t>(found->idiag_uid) : std::nullopt};
  }
  inet_diag_req_v2 own = end.query;  // known to any kernel that supports the request
  std::swap(own.id.idiag_sport, own.id.idiag_dport);
  std::swap(own.id.idiag_src, own.id.idiag_dst);
  const auto listed = found || ask_kernel(own) ? std::nullopt : find_in_tables(end);
  return listed.value_or(Found{end.one_address, std::nullopt});
}

std::string process_of(const std::vector<uid_t>& users) {
  return users.empty() ? "another process" : fmt::format("a process of user {}", fmt::join(users, ", "));
}

}  // namespace

std::vector<uid_t> listening_users(std::istream& table, std::uint16_t port) {
  std::vector<uid_t> users;
  std::string line;
  std::getline(table, line);  // column names
  while (std::getline(table, line)) {
    const std::optional<Row> row = parse_row(line);
    if (!row || !row->listening) {
      break;
    }
    if (port_in_table(row->local) == port && std::ranges::find(users, row->user) == users.end()) {
      users.push_back(row->user);
    }
  }
  return users;
}

std::vector<uid_t> listening_users(std::uint16_t port) {
  std::vector<uid_t> all;
  for (const char* const name : kTables) {
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

std::string foreign_listener(int descriptor) {
  const std::optional<PeerEnd> end = peer_of(descriptor);
  if (!end || !find(*end).here) {
    return "";
  }
  const std::vector<uid_t> users = listening_users(end->port);
  if (std::ranges::find(users, geteuid()) != users.end()) {
    return "";
  }
  if (!users.empty()) {
    return process_of(users) + " listens there";
  }
  // Otherwise the owner of the accepted connection itself is checked.
  const std::string foreign = foreign_client(descriptor);
  return foreign.empty() ? "" : foreign + " answers there";
}

std::string foreign_client(int descriptor) {
  const std::optional<PeerEnd> end = peer_of(descriptor);
  const Found found = end ? find(*end) : Found();
  if (found.here && !found.user && std::ifstream(kTables.front())) {
    return "a process that has ended";
  }
  return found.user && *found.user != geteuid() ? process_of({*found.user}) : "";
}

}  // namespace rollcall::rendezvous
