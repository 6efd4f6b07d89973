#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "runtime/base/result.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/secret.h"
#include "runtime/rendezvous/seek.h"
#include "runtime/rendezvous/socket.h"
#include "runtime/rendezvous/world_key.h"

namespace rollcall::rendezvous {

// How the ranks of a world come together: each says its hello to rank 0 (handshake.h), which answers with the world's
// nonce, and once all have come, "begin", or "failed" and the reason.

/// The other ranks' connections, which stay open.
using Members = std::map<std::uint32_t, Socket>;

/// Rank 0's part: accepts on `listener` until all other ranks of the world `key` are there, tells them so, and leaves
/// the socket as it was: whoever connects from then on waits in its queue. A rank that left, or says more than it has
/// to, is awaited again.
/// Errors (Unavailable): not all came within `timeout`; names who is missing and who was sent away. All that came know.
[[nodiscard]] Result<Members> admit_others(const Listener& listener, const WorldKey& key, const Secret& secret,
                                           std::uint32_t world_size, std::chrono::duration<double> timeout);

/// Who wants to be admitted.
struct Newcomer {
  std::string world;  ///< world_name()
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
};

/// Where rank 0 was found, the key that it gave, and the connection, which stays open.
struct Admission {
  Endpoint endpoint;
  WorldKey key;
  Socket head;
};

/// Another rank's part: tries the places in turn, again and again (rest_after() lies between), until rank 0 of
/// `newcomer`'s world answers at one of them, then waits for its word that all are there. Refused connections,
/// unreachable hosts, names that do not resolve yet and strangers are tried again. `subject` and `what` are the error's
/// setting and value where no place was ever known ("rendezvous.folder", the file's path).
/// Errors (Unavailable): rank 0 was not found within `timeout`: which endpoint, the last reason, who listens there
/// instead; rank 0 gave up or died.
[[nodiscard]] Result<Admission> be_admitted(const PlaceSource& source, const Newcomer& newcomer,
                                            std::chrono::duration<double> timeout, const std::string& subject,
                                            const std::string& what);

}  // namespace rollcall::rendezvous
