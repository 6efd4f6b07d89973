#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/sealing.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::rendezvous {

// How a connection between two processes of rollcall begins, whatever it is for: no listener is believed because it
// listens, and nobody because he connects. Both ends show that they know the secret (sealing.h), and who does not is
// told nothing. The client says a hello; the server (newcomers.h) answers "here" and a nonce, or "refused" and why.

/// What the client says first.
struct Hello {
  std::string role = "rank";  ///< as what it comes: a "rank"; a "probe", which leaves when it is answered; an "agent"
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::string host = {};
};

/// Bytes of the longest hello that is read of who is not known yet.
inline constexpr std::size_t kLongestHello = 1024;

inline constexpr std::string_view kVersion = "rollcall 6";
/// A hello names the protocol's version: what is said after it is read by the same version alone.
[[nodiscard]] std::string to_text(const Hello& hello);
/// Nothing where the text is none, or another version's.
[[nodiscard]] std::optional<Hello> parse_hello(const std::string& text);
/// As what the other end's text shows itself, which is none of this version's: those before 6 sent JSON that names its
/// protocol, or nothing that tells.
[[nodiscard]] std::string version_of(const std::string& text);
/// What another version is told whose hello this is; empty where it is no version's.
[[nodiscard]] std::string refusal_of_another_version(const std::string& text);

// Answers.
[[nodiscard]] std::string welcome(const std::string& nonce);
[[nodiscard]] std::string refusal(const std::string& reason);
/// The reason of a refusal; nothing where the text is another one.
[[nodiscard]] std::optional<std::string> reason_of_refusal(const std::string& text);

/// A sealed connection to `endpoint` on which nothing has been said. Errors: nobody can be reached there
/// (Unavailable); on this host another user's process listens there (Mismatch), which is told nothing.
[[nodiscard]] Result<Socket> connect_sealed(const Endpoint& endpoint, const Seal& seal, Clock::time_point deadline);

/// A connection whose other end knows the secret and has welcomed this one.
struct Welcomed {
  Socket socket;
  std::string nonce;
};

/// Connects to where rank 0 may listen and says `hello`. It and its answer get `patience` each, until `deadline` at
/// most. `secret`: whose it is, for people ("this step's secret"). Errors: nobody listens there, or something that is
/// no rollcall (Unavailable); another one listens there: another user's process, one that does not know the secret or
/// that refuses this process (Mismatch). Their reasons are for people; they have no action.
[[nodiscard]] Result<Welcomed> introduce(const Endpoint& endpoint, const Seal& seal, const Hello& hello,
                                         const std::string& secret, std::chrono::seconds patience,
                                         Clock::time_point deadline);

}  // namespace rollcall::rendezvous
