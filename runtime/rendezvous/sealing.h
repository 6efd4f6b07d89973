#pragma once

#include <sodium.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/rendezvous/secret.h"

namespace rollcall::rendezvous {

// How two processes of one user authenticate each other on a connection that anyone may open. Each end sends an opening
// of kOpening bytes in clear, the client first: the protocol's name and 32 random bytes. The secret, the purpose and
// both openings yield two keys, one per direction, which encrypt everything that follows. The client's first encrypted
// text proves to the server that the client knows the secret, and vice versa. Decryption fails for a text that was
// encrypted with another secret, for another purpose, connection or direction, that was modified, or that arrives out
// of order.

/// The parameters that both ends must share.
struct Seal {
  Secret secret;
  std::string purpose;  ///< "admission", "doctor", ...: a listener for one purpose rejects clients of another
};

/// The two ends of a connection.
enum class End { Client, Server };

/// The keys of one end. Pure except for the random bytes; does not use sockets or frames. Not thread-safe.
class Sealing {
 public:
  static constexpr std::string_view kProtocol = "rollcall sealed1";
  static constexpr std::size_t kOpening = kProtocol.size() + 32;
  /// How many bytes longer the encrypted text can be; the first one is longer by all of them.
  static constexpr std::size_t kLonger =
      crypto_secretstream_xchacha20poly1305_HEADERBYTES + crypto_secretstream_xchacha20poly1305_ABYTES;

  Sealing(End end, Seal seal);

  [[nodiscard]] End end() const { return end_; }
  /// Returns this end's opening, which is sent in clear.
  [[nodiscard]] const std::string& opening() const { return own_; }
  /// Takes the peer's opening of kOpening bytes.
  void take_opening(std::string_view other);
  /// Returns whether the peer's opening was taken, so that texts can be encrypted and decrypted.
  [[nodiscard]] bool ready() const { return ready_; }

  /// Encrypts `text` and appends it to `bytes`.
  void seal(std::string_view text, std::string& bytes);
  /// Returns the number of bytes that seal() will append for the next text.
  [[nodiscard]] std::size_t sealed_size(std::string_view text) const;
  /// Decrypts a text; unset where `sealed` is not the peer's next text.
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
