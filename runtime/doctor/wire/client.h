#pragma once

#include <functional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/doctor/facts.h"
#include "runtime/doctor/wire/candidates.h"
#include "runtime/doctor/wire/message.h"
#include "runtime/rendezvous/handshake.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::doctor {

using rendezvous::Clock;
using rendezvous::Socket;

/// Finds rank 0: tries the expected endpoint for 1 s, then every candidate in turn, until one accepts the handshake
/// with the step's `secret` or `deadline` passes. `further_host` is called once, after that second, for another name or
/// address of the head node (Slurm's own); it may return "". On success `head` says which addresses of its name are
/// silent and whether the expected endpoint works: where another one answered, the expected one is tried again, since
/// rank 0 is known to listen by then. Errors (Unavailable): no candidate accepted.
[[nodiscard]] Result<Socket> find_rank_0(const Candidates& candidates, const rendezvous::Secret& secret,
                                         const rendezvous::Hello& hello,
                                         const std::function<std::string()>& further_host, Clock::time_point deadline,
                                         HeadFacts& head);

/// Answers rank 0's requests until it sends Leave. `answer` returns the reply to a valid request in a world of this
/// size (parse_request). Errors (Unavailable): rank 0 died, or was silent beyond `deadline`; (Mismatch): an invalid
/// request.
[[nodiscard]] Result<void> serve(Socket& rank_0, std::uint32_t world_size,
                                 const std::function<std::string(const Request&)>& answer, Clock::time_point deadline);

}  // namespace rollcall::doctor
