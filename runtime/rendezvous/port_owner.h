#pragma once

#include <sys/types.h>

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace rollcall::rendezvous {

/// The users of the sockets that listen at TCP port `port` by `table`, /proc/net/tcp or tcp6, each once. These list
/// sockets that listen first (Documentation/networking/proc_net_tcp.rst), and no more is read: connections can be many.
[[nodiscard]] std::vector<uid_t> listening_users(std::istream& table, std::uint16_t port);

/// The same of this host, as far as its network namespace goes; none where the kernel does not tell.
[[nodiscard]] std::vector<uid_t> listening_users(std::uint16_t port);

/// Whose process listens at `port` of this host, for people: "a process of user 1001"; "another process" where the
/// kernel does not tell.
[[nodiscard]] std::string listener_text(std::uint16_t port);

/// Why the other end of the connected TCP socket `descriptor` is no process of this user: "a process of user 1001
/// listens there", or "answers there" where it has accepted the connection and listens no longer; what it said may
/// still be read where it is gone. Empty where it is one, or cannot be told: on another host, or without /proc.
[[nodiscard]] std::string stranger_at_other_end(int descriptor);

/// The same for a connection that this process accepted: "a process of user 1001", "a process that is gone".
[[nodiscard]] std::string stranger_who_connected(int descriptor);

}  // namespace rollcall::rendezvous
