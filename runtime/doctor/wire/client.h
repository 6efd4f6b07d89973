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

/// Finds rank 0: tries the expected endpoint for a second, then every candidate in turn, until one greets back who
/// knows the step's `secret`, within `deadline`. `further_host` is asked once, after that second, for one more name or
/// address of the head node (Slurm's own); it may return "". On success `head` says whether the expected endpoint
/// works: where the greeting came by another one, the expected one is tried again, since rank 0 is known to listen by
/// then; and which addresses of its name are silent. Errors (Unavailable): nobody greeted back.
[[nodiscard]] Result<Socket> find_rank_0(const Candidates& candidates, const rendezvous::Secret& secret,
                                         const rendezvous::Hello& hello,
                                         const std::function<std::string()>& further_host, Clock::time_point deadline,
                                         HeadFacts& head);

/// Answers rank 0's requests until it says Leave. `answer` gives the text of the reply to one that can be met in a
/// world of this size (parse_request). Errors (Unavailable): rank 0 died, or was silent beyond `deadline`; (Mismatch):
/// a request that is none.
[[nodiscard]] Result<void> serve(Socket& rank_0, std::uint32_t world_size,
                                 const std::function<std::string(const Request&)>& answer, Clock::time_point deadline);

}  // namespace rollcall::doctor
