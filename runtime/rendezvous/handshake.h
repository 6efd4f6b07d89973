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

// Every connection between two rollcall processes begins with this handshake. Neither a listener nor a client is
// trusted before it has proved that it knows the secret (sealing.h); without the proof it is sent nothing. The client
// sends a hello; the server (pending_connections.h) answers "here" and a nonce, or "refused" and the reason.

/// The client's first message.
struct Hello {
  std::string role = "rank";  ///< "rank"; "probe", which leaves when it is answered; or "agent"
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::string host = {};
};

/// The longest hello that is read from an unauthenticated peer, in bytes.
inline constexpr std::size_t kLongestHello = 1024;

inline constexpr std::string_view kVersion = "rollcall 6";
/// A hello names the protocol's version: later messages are read by the same version only.
[[nodiscard]] std::string to_text(const Hello& hello);
/// Parses a hello; unset where the text is not one of this version.
[[nodiscard]] std::optional<Hello> parse_hello(const std::string& text);
/// Returns the version of a peer whose text is not of this version. Versions before 6 sent JSON that names the
/// protocol, or nothing recognizable.
[[nodiscard]] std::string version_of(const std::string& text);
/// Returns the refusal that answers another version's hello; empty where the text is no version's hello.
[[nodiscard]] std::string refusal_of_another_version(const std::string& text);

// Answers of the server.
[[nodiscard]] std::string welcome(const std::string& nonce);
[[nodiscard]] std::string refusal(const std::string& reason);
/// Returns the reason of a refusal; unset where the text is not a refusal.
[[nodiscard]] std::optional<std::string> reason_of_refusal(const std::string& text);

/// Opens an encrypted connection to `endpoint` and sends nothing on it. Errors: nothing can be reached there
/// (Unavailable); another user's process listens there on this host (Mismatch).
[[nodiscard]] Result<Socket> connect_sealed(const Endpoint& endpoint, const Seal& seal, Clock::time_point deadline);

/// A connection whose peer knows the secret and has accepted this process.
struct HandshakeResult {
  Socket socket;
  std::string nonce;
};

/// Connects to a possible endpoint of rank 0 and sends `hello`. Sending and the answer get `patience` each, until
/// `deadline` at most. `secret` names the secret in messages ("this step's secret"). Errors: nothing listens there, or
/// not rollcall (Unavailable); another process listens there: of another user, without the secret, or one that refuses
/// this process (Mismatch). Their reasons are for users; they have no action.
[[nodiscard]] Result<HandshakeResult> perform_handshake(const Endpoint& endpoint, const Seal& seal, const Hello& hello,
                                                        const std::string& secret, std::chrono::seconds patience,
                                                        Clock::time_point deadline);

}  // namespace rollcall::rendezvous
