#pragma once

#include <sodium.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/rendezvous/secret.h"

namespace rollcall::rendezvous {

// How two processes of one user know each other on a connection that anybody may open. Each says kOpening bytes in
// clear: the protocol's name and 32 random bytes, the client first. From the secret, the purpose and both openings
// follow two keys, one a direction, and whatever is said from then on is sealed with them. The client's first sealed
// text shows the server that it knows the secret, the server's first shows it the client. A text that was made with
// another secret, for another purpose, on another connection or in the other direction, that was changed, or that comes
// at another place than it was said, cannot be opened.

/// What both ends must have alike.
struct Seal {
  Secret secret;
  std::string purpose;  ///< "admission", "doctor", ...: a listener for one takes no other's client
};

/// Which end of a connection this is.
enum class End { Client, Server };

/// One end's keys. Pure but for the random bytes; knows nothing of sockets and frames. Not thread-safe.
class Sealing {
 public:
  static constexpr std::string_view kProtocol = "rollcall sealed1";
  static constexpr std::size_t kOpening = kProtocol.size() + 32;
  /// Bytes that a sealed text may be longer than the text; the first is, by all of them.
  static constexpr std::size_t kLonger =
      crypto_secretstream_xchacha20poly1305_HEADERBYTES + crypto_secretstream_xchacha20poly1305_ABYTES;

  Sealing(End end, Seal seal);

  [[nodiscard]] End end() const { return end_; }
  /// What this end says in clear.
  [[nodiscard]] const std::string& opening() const { return own_; }
  /// Takes the other end's, of kOpening bytes.
  void take_opening(std::string_view other);
  /// It has been taken: texts can be sealed and opened.
  [[nodiscard]] bool ready() const { return ready_; }

  /// Appends `text`, sealed, to `bytes`.
  void seal(std::string_view text, std::string& bytes);
  /// The bytes that seal() will append for the next text.
  [[nodiscard]] std::size_t sealed_size(std::string_view text) const;
  /// The text; nothing where these are not the bytes that the other end said next.
  [[nodiscard]] std::optional<std::string> open(std::string_view sealed);

 private:
  using Stream = crypto_secretstream_xchacha20poly1305_state;

  [[nodiscard]] Secret::Bytes key_from(End sender, std::string_view other) const;

  End end_;
  Seal seal_;
  std::string own_;
  bool ready_ = false;
  bool has_sealed_ = false;
  bool has_opened_ = false;
  Secret::Bytes sealing_key_{};
  Secret::Bytes opening_key_{};
  Stream outgoing_{};
  Stream incoming_{};
};

}  // namespace rollcall::rendezvous
