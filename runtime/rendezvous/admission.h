#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/secret.h"
#include "runtime/rendezvous/socket.h"
#include "runtime/rendezvous/world_key.h"

namespace rollcall::rendezvous {

// No listener is believed because it listens, and nobody because he connects: both ends of a connection show that they
// know their world's secret (sealing.h), and who does not is told nothing. Texts: the rank says its rank, the world's
// size and its host, a line each; rank 0 answers "here" and its nonce, or "refused" and the reason; and once all have
// come, "begin", or "failed" and the reason.

/// What a rank says first.
struct Hello {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::string host;
};

[[nodiscard]] std::string to_text(const Hello& hello);
[[nodiscard]] std::optional<Hello> parse_hello(const std::string& text);

/// The other ranks' connections, which stay open.
using Members = std::map<std::uint32_t, Socket>;

/// Rank 0's part: accepts on `listener` until all other ranks of the world `key` are there, tells them so, and leaves
/// the socket as it was: whoever connects from then on waits in its queue. A rank that left, or says more than it has
/// to, is awaited again.
/// Errors (Unavailable): not all came within `timeout`; names who is missing and who was sent away. All that came know.
[[nodiscard]] Result<Members> admit_others(const Listener& listener, const WorldKey& key, const Secret& secret,
                                           std::uint32_t world_size, std::chrono::duration<double> timeout);

/// Where rank 0 may be.
struct Place {
  Endpoint endpoint;
  Secret secret;  ///< the world's, as far as this place goes
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
