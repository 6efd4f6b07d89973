#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/rendezvous/sealing.h"

namespace rollcall::rendezvous {

/// More than the facts of any node that a doctor reports: a longer frame comes from an unexpected peer.
inline constexpr std::size_t kLongestFrame = std::size_t{1} << 22;
/// Bytes of its length before it.
inline constexpr std::size_t kFrameHeader = 4;

/// The texts of one connection: those of the other end are put together from what arrives in pieces, those of this one
/// become bytes to send. A frame is the length of its text (4 bytes, big endian) and the text. Does no I/O. Not
/// thread-safe.
class FrameBuffer {
 public:
  /// In clear: nobody is asked who he is.
  FrameBuffer() = default;
  /// Sealed (sealing.h). What this end says waits until the other end's opening has come.
  FrameBuffer(End end, Seal seal);

  /// What has arrived.
  void append(std::string_view bytes);
  /// The other end's next whole text, or nothing yet.
  [[nodiscard]] std::optional<std::string> next();
  /// The bytes are no frame of a text of at most `longest`, or next() found a frame that cannot be opened: this is no
  /// rollcall at the other end, or none that knows the secret. Nothing more will come out where it is so for
  /// kLongestFrame.
  [[nodiscard]] bool broken(std::size_t longest = kLongestFrame) const;
  /// Bytes that have arrived and are no whole text yet, or wait to be asked for.
  [[nodiscard]] std::size_t size() const { return bytes_.size() - taken_; }
  /// What size() becomes at most where a first frame is of a text of `longest` bytes.
  [[nodiscard]] std::size_t most(std::size_t longest) const {
    return kFrameHeader + longest + (sealing_ ? Sealing::kLonger : 0);
  }
  /// Throws away what has arrived.
  void clear();
  /// The other end's opening has come; in clear, always.
  [[nodiscard]] bool opened() const { return !sealing_ || sealing_->ready(); }
  /// The other end has shown that it knows the secret; in clear, that it said a text.
  [[nodiscard]] bool proven() const { return proven_; }

  /// Says `text`.
  void say(std::string_view text);
  /// Bytes to send now.
  [[nodiscard]] std::string_view outgoing() const { return std::string_view(outgoing_).substr(sent_); }
  /// `count` of them are sent.
  void sent(std::size_t count);
  /// Bytes that are still to be sent, now or when the other end's opening has come.
  [[nodiscard]] std::size_t unsent() const { return outgoing().size() + waiting_size_; }

 private:
  [[nodiscard]] std::optional<std::size_t> length() const;
  [[nodiscard]] std::string_view arrived() const { return std::string_view(bytes_).substr(taken_); }
  void hear_opening();

  std::unique_ptr<Sealing> sealing_;
  std::string bytes_;
  std::size_t taken_ = 0;  ///< at the front of `bytes_`: frames that have come out
  bool broken_ = false;
  bool proven_ = false;
  std::string outgoing_;
  std::size_t sent_ = 0;              ///< at the front of `outgoing_`
  std::vector<std::string> waiting_;  ///< until there are keys
  std::size_t waiting_size_ = 0;
};

}  // namespace rollcall::rendezvous
