#pragma once

#include <chrono>
#include <string>

#include "runtime/rendezvous/endpoint.h"

namespace rollcall::rendezvous {

using Clock = std::chrono::steady_clock;

/// For poll(2): what is left until `deadline`, at least 0, rounded up.
[[nodiscard]] int milliseconds_until(Clock::time_point deadline);

/// An attempt to connect: a socket that the caller closes (non-blocking, close-on-exec), or -1 and the reason.
struct Attempt {
  int descriptor = -1;
  std::string reason;
  bool refused = false;  ///< that host, or something before it, says that nobody listens there
  bool silent = false;   ///< nobody said anything by the deadline
};

/// Opens one TCP connection to `endpoint`. With several addresses each gets an equal share of the time until
/// `deadline`, so that a silent one does not use up the time of the next. The look-up of a name takes as long as the
/// resolver does; an address needs none.
[[nodiscard]] Attempt connect_once(const Endpoint& endpoint, Clock::time_point deadline);

/// Whether the host of `endpoint` says, by `deadline`, that no process listens there any longer: it refuses a
/// connection, or resets one that was still to be accepted when the process ended. A host that is silent has said
/// nothing.
[[nodiscard]] bool nobody_listens(const Endpoint& endpoint, Clock::time_point deadline);

/// The address by which the other end of a connection sees this end, and by which this end sees the other; empty where
/// the descriptor is no connection.
[[nodiscard]] std::string own_address(int descriptor);
[[nodiscard]] std::string peer_address(int descriptor);

/// How long to rest before the next attempt where the first was `waited` ago: an eighth of that, at least 2 ms, at most
/// 1 s. Each attempt may ask a name server and reaches the head node's kernel, and all ranks of a world make them:
/// where rank 0 is a minute late, that is some hundred a rank, and it costs no more than an eighth of the time by which
/// rank 0 is late. Pure.
[[nodiscard]] std::chrono::milliseconds rest_after(Clock::duration waited);

}  // namespace rollcall::rendezvous
