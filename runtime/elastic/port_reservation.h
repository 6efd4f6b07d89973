#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/rendezvous/connect.h"

namespace rollcall::elastic {

/// A port that this node keeps free for a generation's rank 0: a socket that is bound but does not listen. With
/// SO_REUSEADDR on both sides, a worker can bind and listen there, while the kernel does not assign the port to anyone
/// else. Another user of the host can take it by naming it, like any port without a listener
/// (docs/administrator/security.md). Movable; the port is released on destruction.
class PortReservation {
 public:
  PortReservation() = default;
  /// Errors (Unavailable): no free port.
  [[nodiscard]] static Result<PortReservation> make();

  PortReservation(PortReservation&& other) noexcept;
  PortReservation& operator=(PortReservation&& other) noexcept;
  ~PortReservation();

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  int descriptor_ = -1;
  std::uint16_t port_ = 0;
};

/// Returns whether `host`, a name or an address, is this host: its addresses can be bound here. False for a name that
/// does not resolve. Asks the resolver.
[[nodiscard]] bool is_this_host(const std::string& host);

using rendezvous::own_address;
using rendezvous::peer_address;

}  // namespace rollcall::elastic
