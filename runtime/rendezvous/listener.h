#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::rendezvous {

/// A listening TCP socket. Connections wait in its queue from construction on (backlog 2048, limited by
/// net.core.somaxconn). Movable; closes on destruction. Not thread-safe.
class Listener {
 public:
  /// Listens on all addresses: IPv6 and IPv4 in one socket, or IPv4 alone where the host has no IPv6. With port 0 the
  /// kernel chooses the port. The socket is close-on-exec and has SO_REUSEADDR.
  /// Errors (Unavailable): MASTER_PORT is in use or cannot be bound, or no socket can be created.
  [[nodiscard]] static Result<Listener> on_all_addresses(std::uint16_t port);
  /// Listens on 127.0.0.1 only, on a port chosen by the kernel, for a world of one rank.
  [[nodiscard]] static Result<Listener> on_loopback();

  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  /// Returns the bound port, never 0.
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Returns the socket, which stays owned by this object; -1 after a move.
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  Listener(int descriptor, std::uint16_t port) : descriptor_(descriptor), port_(port) {}

  int descriptor_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace rollcall::rendezvous
