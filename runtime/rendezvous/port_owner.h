#pragma once

#include <sys/types.h>

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace rollcall::rendezvous {

/// Returns the users of the sockets that listen at TCP port `port` in `table` (/proc/net/tcp or tcp6), each once. Reads
/// only the listening sockets, which come first (Documentation/networking/proc_net_tcp.rst), because there can be many
/// connections.
[[nodiscard]] std::vector<uid_t> listening_users(std::istream& table, std::uint16_t port);

/// Returns the same for this host and network namespace; empty where the kernel does not report it.
[[nodiscard]] std::vector<uid_t> listening_users(std::uint16_t port);

/// Returns the owner of the listener at `port` of this host for messages: "a process of user 1001", or "another
/// process" where the kernel does not report the user.
[[nodiscard]] std::string listener_text(std::uint16_t port);

/// Returns why the peer of the connected TCP socket `descriptor` is not a process of this user: "a process of user 1001
/// listens there", or "answers there" where it has accepted the connection and listens no longer. Data of a peer that
/// is gone may still be readable. Empty where it is this user's process, or unknown: on another host, or without /proc.
[[nodiscard]] std::string foreign_listener(int descriptor);

/// Returns the same for an accepted connection: "a process of user 1001", "a process that has ended".
[[nodiscard]] std::string foreign_client(int descriptor);

}  // namespace rollcall::rendezvous
