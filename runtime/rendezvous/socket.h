#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/rendezvous/connect.h"

namespace rollcall::rendezvous {

/// More than the facts of any node that a doctor reports: a longer frame comes from an unexpected peer.
inline constexpr std::size_t kLongestFrame = std::size_t{1} << 22;
/// Bytes of its length before it.
inline constexpr std::size_t kFrameHeader = 4;

/// The bytes of one message: its length (4 bytes, big endian), then `text`, at most kLongestFrame long.
[[nodiscard]] std::string encode_frame(std::string_view text);

/// Puts frames together again from what arrives in pieces. Not thread-safe.
class FrameBuffer {
 public:
  void append(std::string_view bytes);
  /// The next whole message, or nothing yet.
  [[nodiscard]] std::optional<std::string> next();
  /// The bytes cannot be a frame of at most `longest`: this is no rollcall at the other end. Nothing more will come out
  /// where they are none of kLongestFrame.
  [[nodiscard]] bool broken(std::size_t longest = kLongestFrame) const;
  /// Bytes that have arrived and are no whole message yet, or wait to be asked for.
  [[nodiscard]] std::size_t size() const { return bytes_.size() - taken_; }
  /// Forgets them.
  void clear();

 private:
  [[nodiscard]] std::optional<std::size_t> length() const;

  std::string bytes_;
  std::size_t taken_ = 0;  ///< at the front of `bytes_`: frames that have come out
};

/// One TCP connection, owned, non-blocking, without Nagle's delay. Every call ends at its deadline at the latest.
/// Movable; closes on destruction. Not thread-safe. Errors (Unavailable): the other end closed or reset, or the
/// deadline.
class Socket {
 public:
  Socket() = default;
  /// Takes an open descriptor over.
  explicit Socket(int descriptor);
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }

  [[nodiscard]] Result<void> send_frame(std::string_view text, Clock::time_point deadline);
  [[nodiscard]] Result<std::string> receive_frame(Clock::time_point deadline);

  /// Takes what has arrived without waiting, until `most` bytes lie in `frames()`, where whole frames come from; false
  /// where the other end is gone.
  [[nodiscard]] bool take_arrived(std::size_t most = kFrameHeader + kLongestFrame);
  [[nodiscard]] FrameBuffer& frames() { return frames_; }

 private:
  int descriptor_ = -1;
  FrameBuffer frames_;
};

/// Sends all of `outgoing` to `to` and receives all of `incoming` from `from`, both at once: what a step of a ring is.
/// Either may be empty. The sockets may not have unread frames buffered.
[[nodiscard]] Result<void> transfer(const Socket& to, std::span<const std::byte> outgoing, const Socket& from,
                                    std::span<std::byte> incoming, Clock::time_point deadline);

/// Accepts one connection from the listening socket `descriptor`, or fails at the deadline.
[[nodiscard]] Result<Socket> accept_one(int descriptor, Clock::time_point deadline);

}  // namespace rollcall::rendezvous
