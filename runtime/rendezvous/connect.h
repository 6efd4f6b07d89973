#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "runtime/base/result.h"
#include "runtime/rendezvous/endpoint.h"

namespace rollcall::rendezvous {

using Clock = std::chrono::steady_clock;

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
