#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/rendezvous/sealing.h"

namespace rollcall::rendezvous {

/// The largest text of a frame, larger than any node's facts for the doctor: a longer frame is from an unexpected peer.
inline constexpr std::size_t kLongestFrame = std::size_t{1} << 22;
/// Size of the length field before the text, in bytes.
inline constexpr std::size_t kFrameHeader = 4;

/// The frames of one connection: assembles the peer's texts from arriving pieces, and turns this end's texts into bytes
/// to send. A frame is the length of its text (4 bytes, big endian) and the text. Does no I/O. Not thread-safe.
class FrameBuffer {
 public:
  /// Creates an unencrypted buffer, which does not authenticate the peer.
  FrameBuffer() = default;
  /// Creates an encrypted buffer (sealing.h). Texts wait until the peer's opening has arrived.
  FrameBuffer(End end, Seal seal);

  /// Appends bytes that have arrived.
  void append(std::string_view bytes);
  /// Returns the peer's next complete text, or nothing.
  [[nodiscard]] std::optional<std::string> next();
  /// Returns whether the bytes are not a frame of a text of at most `longest`, or next() found a frame that cannot be
  /// decrypted: the peer is not rollcall or does not know the secret. Where it is true for kLongestFrame, next()
  /// returns nothing more.
  [[nodiscard]] bool broken(std::size_t longest = kLongestFrame) const;
  /// Returns the number of bytes that have arrived and next() has not returned.
  [[nodiscard]] std::size_t size() const { return bytes_.size() - taken_; }
  /// Returns the largest size() possible where the first frame's text has at most `longest` bytes.
  [[nodiscard]] std::size_t most(std::size_t longest) const {
    return kFrameHeader + longest + (sealing_ ? Sealing::kLonger : 0);
  }
  /// Discards what has arrived.
  void clear();
  /// Returns whether the peer's opening has arrived; always true without encryption.
  [[nodiscard]] bool opened() const { return !sealing_ || sealing_->ready(); }
  /// Returns whether the peer has proved that it knows the secret; without encryption, whether it has sent a text.
  [[nodiscard]] bool proven() const { return proven_; }

  /// Queues `text`.
  void queue(std::string_view text);
  /// Returns the bytes to send now.
  [[nodiscard]] std::string_view outgoing() const { return std::string_view(outgoing_).substr(sent_); }
  /// Records that `count` of them were sent.
  void sent(std::size_t count);
  /// Returns the number of bytes still to be sent, now or once the peer's opening has arrived.
  [[nodiscard]] std::size_t unsent() const { return outgoing().size() + waiting_size_; }

 private:
  [[nodiscard]] std::optional<std::size_t> length() const;
  [[nodiscard]] std::string_view arrived() const { return std::string_view(bytes_).substr(taken_); }
  void receive_opening();

  std::unique_ptr<Sealing> sealing_;
  std::string bytes_;
  std::size_t taken_ = 0;  ///< offset in `bytes_`: frames before it were returned
  bool broken_ = false;
  bool proven_ = false;
  std::string outgoing_;
  std::size_t sent_ = 0;              ///< offset in `outgoing_`
  std::vector<std::string> waiting_;  ///< texts queued before the keys exist
  std::size_t waiting_size_ = 0;
};

}  // namespace rollcall::rendezvous
