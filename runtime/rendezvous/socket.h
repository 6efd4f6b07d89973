#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/frames.h"

namespace rollcall::rendezvous {

/// One TCP connection, owned, non-blocking, without Nagle's delay. Every call ends at its deadline at the latest.
/// Movable; closes on destruction. Not thread-safe. Errors (Unavailable): the other end closed or reset, or the
/// deadline.
class Socket {
 public:
  Socket() = default;
  /// Takes an open descriptor over; what is said goes in clear.
  explicit Socket(int descriptor);
  /// Sealed: the client's end has its opening sent by the first call that sends or takes anything.
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

  /// Takes what has arrived without waiting, until `most` bytes lie in `frames()`, where whole frames come from; false
  /// where the other end is gone.
  [[nodiscard]] bool take_arrived(std::size_t most = kFrameHeader + Sealing::kLonger + kLongestFrame);
  /// Hands to the kernel what it takes of what `frames()` has to send, without waiting; false where the other end is
  /// gone. take_arrived() does it as well: what arrives can let more be sent.
  [[nodiscard]] bool flush();
  [[nodiscard]] FrameBuffer& frames() { return frames_; }
  [[nodiscard]] const FrameBuffer& frames() const { return frames_; }

 private:
  int descriptor_ = -1;
  FrameBuffer frames_;
};

/// Sends all of `outgoing` to `to` and receives all of `incoming` from `from`, both at once: what a step of a ring is.
/// Either may be empty. The sockets may not have unread frames buffered.
[[nodiscard]] Result<void> transfer(const Socket& to, std::span<const std::byte> outgoing, const Socket& from,
                                    std::span<std::byte> incoming, Clock::time_point deadline);

}  // namespace rollcall::rendezvous
