#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/frames.h"

namespace rollcall::rendezvous {

/// A TCP connection, non-blocking and without Nagle's delay. Every call ends at its deadline at the latest. Movable;
/// closes on destruction. Not thread-safe. Errors (Unavailable): the peer closed or reset the connection, or the
/// deadline has passed.
class Socket {
 public:
  Socket() = default;
  /// Takes over an open descriptor, without encryption.
  explicit Socket(int descriptor);
  /// Takes over an open descriptor with encryption. The client's opening is sent by the first call that sends or
  /// receives.
  Socket(int descriptor, End end, Seal seal);
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }

  [[nodiscard]] Result<void> send_frame(std::string_view text, Clock::time_point deadline);
  [[nodiscard]] Result<std::string> receive_frame(Clock::time_point deadline);

  /// Moves what has arrived to `frames()` without waiting, until that holds `most` bytes; false where the peer is gone.
  [[nodiscard]] bool take_arrived(std::size_t most = kFrameHeader + Sealing::kLonger + kLongestFrame);
  /// Sends as much of the queued data of `frames()` as the kernel takes, without waiting; false where the peer is gone.
  /// take_arrived() sends as well, because arriving data can allow more to be sent.
  [[nodiscard]] bool flush();
  [[nodiscard]] FrameBuffer& frames() { return frames_; }
  [[nodiscard]] const FrameBuffer& frames() const { return frames_; }

 private:
  int descriptor_ = -1;
  FrameBuffer frames_;
};

/// Sends all of `outgoing` to `to` and receives all of `incoming` from `from` at the same time: one step of a ring.
/// Either may be empty. The sockets must not have unread frames buffered.
[[nodiscard]] Result<void> transfer(const Socket& to, std::span<const std::byte> outgoing, const Socket& from,
                                    std::span<std::byte> incoming, Clock::time_point deadline);

}  // namespace rollcall::rendezvous
