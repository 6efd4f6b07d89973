#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/rendezvous/endpoint.h"

namespace rollcall::rendezvous {

using Clock = std::chrono::steady_clock;

/// For poll(2): what is left until `deadline`, at least 0, rounded up.
[[nodiscard]] int milliseconds_until(Clock::time_point deadline);

/// An attempt to connect: a socket that the caller closes (non-blocking, close-on-exec), or -1 and the reason.
struct Attempt {
  int descriptor = -1;
  std::string reason;
};

/// Opens one TCP connection to `endpoint`. With several addresses each gets an equal share of the time until
/// `deadline`, so that a silent one does not use up the time of the next. The look-up of a name takes as long as the
/// resolver does; an address needs none.
[[nodiscard]] Attempt connect_once(const Endpoint& endpoint, Clock::time_point deadline);

/// Where to connect to next; nothing: not known yet. Asked again before every attempt.
using EndpointSource = std::function<std::optional<Endpoint>()>;

/// Tries to open a TCP connection to what `source` names, again and again (2 ms apart at first, growing to 50 ms),
/// until one is accepted or `timeout` is over; closes it and returns the endpoint. Refused connections, unreachable
/// hosts and names that do not resolve yet are tried again. `subject` and `what` are the error's setting and value
/// where `source` never named an endpoint ("rendezvous.folder", the file's path). Errors (Unavailable): which endpoint,
/// how long, the last reason.
[[nodiscard]] Result<Endpoint> wait_until_accepting(const EndpointSource& source, std::chrono::duration<double> timeout,
                                                    const std::string& subject, const std::string& what);

}  // namespace rollcall::rendezvous
