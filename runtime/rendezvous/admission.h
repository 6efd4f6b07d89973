#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/world_key.h"

namespace rollcall::rendezvous {

// No listener is believed because it listens, and nobody because he connects: each rank says on a connection which
// world it is of, rank 0 answers with its own, and both go on only where they are the same. Frames of socket.h: the
// rank says "rollcall meeting 1", name, nonce (or nothing), rank, world size, host, a line each; rank 0 answers "here",
// name, nonce, or "refused" and the reason; and once all have come, "begin", or "failed" and the reason.

/// How the other ranks get to know rank 0's nonce.
enum class Nonce {
  KnownToRanks,  ///< over PMIx or from a file: who lacks it is none of them
  ToldHere,      ///< in rank 0's answer: MASTER_ADDR and MASTER_PORT say nothing of it
};

/// Rank 0's part: accepts on `listener` until all other ranks of the world `key` are there, tells them so, and leaves
/// the socket as it was: whoever connects from then on waits in its queue for the next owner. Strangers get a refusal
/// that names this world. A rank that left, or says more than it has to, is awaited again. `nonce` says whether the
/// ranks have it from elsewhere: then it is told to none that does not show it.
/// Errors (Unavailable): not all came within `timeout`; names who is missing and who was refused. All that came know.
[[nodiscard]] Result<void> admit_others(const Listener& listener, const WorldKey& key, std::uint32_t world_size,
                                        std::chrono::duration<double> timeout, Nonce nonce);

/// Where rank 0 may be.
struct Place {
  Endpoint endpoint;
  std::string nonce;  ///< that rank 0 told us besides; empty: none
};

/// What is known now of where rank 0 is; asked again before every round. `refusal`: why something that was found is not
/// believed.
struct Places {
  std::vector<Place> places = {};
  std::string refusal = {};
};
using PlaceSource = std::function<Places()>;

/// Who wants to be admitted.
struct Newcomer {
  std::string world;  ///< world_name()
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
};

/// Where rank 0 was found, and the key that it gave.
struct Admission {
  Endpoint endpoint;
  WorldKey key;
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
