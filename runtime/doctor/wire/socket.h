#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/doctor/wire/frame.h"
#include "runtime/rendezvous/connect.h"

namespace rollcall::doctor {

using rendezvous::Clock;

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

  /// Takes what has arrived without waiting; false where the other end is gone. Frames come from `frames()`.
  [[nodiscard]] bool take_arrived();
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

/// For poll(2): what is left until `deadline`, at least 0, rounded up.
[[nodiscard]] int milliseconds_until(Clock::time_point deadline);

}  // namespace rollcall::doctor
