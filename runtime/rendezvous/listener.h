#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::rendezvous {

/// A listening TCP socket, owned. Bound and listening from construction on: connections queue (backlog 2048, as far as
/// net.core.somaxconn allows) until somebody accepts. Movable; closes on destruction. Not thread-safe.
class Listener {
 public:
  /// Listens on all addresses, IPv6 and IPv4 in one socket, IPv4 alone where the host has no IPv6. Port 0: the kernel
  /// chooses. The socket is close-on-exec and has SO_REUSEADDR.
  /// Errors (Unavailable): MASTER_PORT is in use, may not be bound, or no socket can be made.
  [[nodiscard]] static Result<Listener> on_all_addresses(std::uint16_t port);
  /// Listens on 127.0.0.1 only, port chosen by the kernel: for a world of one.
  [[nodiscard]] static Result<Listener> on_loopback();

  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  /// The port it is bound to, never 0.
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// The socket, still owned by this object; -1 after a move.
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  Listener(int descriptor, std::uint16_t port) : descriptor_(descriptor), port_(port) {}

  int descriptor_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace rollcall::rendezvous
