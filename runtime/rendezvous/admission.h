#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "runtime/base/result.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/locate.h"
#include "runtime/rendezvous/secret.h"
#include "runtime/rendezvous/socket.h"
#include "runtime/rendezvous/world_key.h"

namespace rollcall::rendezvous {

// Admission of a world's ranks: each rank sends its hello to rank 0 (handshake.h), which answers with the world's
// nonce, and once all have arrived, with "begin", or with "failed" and the reason.

/// The connections to the other ranks, which stay open.
using Members = std::map<std::uint32_t, Socket>;

/// Rank 0's part: accepts connections on `listener` until all other ranks of the world `key` are present, notifies
/// them, and restores the socket: later connections wait in its queue. A rank that disconnects, or sends more than it
/// should, is waited for again. Errors (Unavailable): not all ranks arrived within `timeout`; names the missing ranks
/// and a rejected peer. All ranks that arrived are notified.
[[nodiscard]] Result<Members> admit_others(const Listener& listener, const WorldKey& key, const Secret& secret,
                                           std::uint32_t world_size, std::chrono::duration<double> timeout);

/// A rank's request to be admitted.
struct AdmissionRequest {
  std::string world;  ///< world_name()
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
};

/// Where rank 0 was found, the key that it sent, and the connection, which stays open.
struct Admission {
  Endpoint endpoint;
  WorldKey key;
  Socket head;
};

/// Another rank's part: tries the locations in turn, repeatedly (with pauses of rest_after()), until rank 0 of
/// `request`'s world answers at one of them, then waits until rank 0 reports that all ranks are present. Refused
/// connections, unreachable hosts, names that do not yet resolve and foreign listeners are retried. `subject` and
/// `what` are the error's setting and value where no location was ever known ("rendezvous.folder", the file's path).
/// Errors (Unavailable): rank 0 was not found within `timeout`, with the endpoint, the last reason and who listens
/// there instead; or rank 0 gave up or died.
[[nodiscard]] Result<Admission> be_admitted(const LocationSource& source, const AdmissionRequest& request,
                                            std::chrono::duration<double> timeout, const std::string& subject,
                                            const std::string& what);

}  // namespace rollcall::rendezvous
