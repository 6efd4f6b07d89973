#pragma once

#include <chrono>
#include <string>

#include "runtime/rendezvous/endpoint.h"

namespace rollcall::rendezvous {

using Clock = std::chrono::steady_clock;

/// Returns the time until `deadline` for poll(2): at least 0, rounded up.
[[nodiscard]] int milliseconds_until(Clock::time_point deadline);

/// An attempt to connect: a socket that the caller closes (non-blocking, close-on-exec), or -1 and the reason.
struct Attempt {
  int descriptor = -1;
  std::string reason;
  bool refused = false;  ///< the host, or a firewall before it, reported that nothing listens there
  bool silent = false;   ///< nothing answered by the deadline
};

/// Opens a TCP connection to `endpoint`. Several addresses get equal shares of the time until `deadline`, so that a
/// silent one does not use up the time of the next. Resolving a name takes as long as the resolver does; an address
/// needs none.
[[nodiscard]] Attempt connect_once(const Endpoint& endpoint, Clock::time_point deadline);

/// Returns whether the host of `endpoint` reports by `deadline` that no process listens there any longer: it refuses a
/// connection, or resets one that was not yet accepted when the process ended. False where the host is silent.
[[nodiscard]] bool nobody_listens(const Endpoint& endpoint, Clock::time_point deadline);

/// Return this end's address as the peer sees it, and the peer's address as this end sees it. Empty where the
/// descriptor is not a connection.
[[nodiscard]] std::string own_address(int descriptor);
[[nodiscard]] std::string peer_address(int descriptor);

/// Returns the pause before the next attempt, where the first was `waited` ago: an eighth of that, from 2 ms to 1 s.
/// All ranks of a world make attempts, each of which may ask a name server and reaches the head node's kernel. Where
/// rank 0 is a minute late, each rank makes about a hundred, and the pause costs at most an eighth of rank 0's delay.
/// Pure.
[[nodiscard]] std::chrono::milliseconds rest_after(Clock::duration waited);

}  // namespace rollcall::rendezvous
