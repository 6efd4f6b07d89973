#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/elastic/coordinator.h"
#include "runtime/rendezvous/event_loop.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::elastic {

using rendezvous::EventLoop;

/// A connection between two agents in an event loop: frames go out without waiting, what does not fit is kept. What the
/// other end can cost is bounded: a turn of the loop takes 16 KiB from it, and where it does not read, 8 MiB are kept.
/// Owns the socket. Not movable: the loop knows it.
class Connection {
 public:
  /// `ready` is called when something arrived, or the other end is gone. An other end that does not know the socket's
  /// secret breaks the connection, and so does a text of more than `longest` bytes.
  Connection(EventLoop& loop, rendezvous::Socket socket, EventLoop::Ready ready, std::size_t longest = kLongest);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// Bytes of the longest text that is taken.
  static constexpr std::size_t kLongest = rendezvous::kLongestFrame;

  /// Texts of up to kLongest bytes are taken from now on.
  void trust() { longest_ = kLongest; }
  void send(std::string_view text);
  /// The other end has begun a handshake, which shows nothing yet.
  [[nodiscard]] bool opened() const { return frames().opened(); }
  /// The other end has shown that it knows the secret.
  [[nodiscard]] bool proven() const { return frames().proven(); }
  /// Nothing that it says counts any longer: what has arrived and what will arrive is thrown away.
  void stop_hearing();
  /// The next message that arrived, or nothing yet.
  [[nodiscard]] std::optional<std::string> next();
  /// The other end is gone, speaks something else or does not read; what had arrived before is still given.
  [[nodiscard]] bool broken() const { return broken_ || frames().broken(); }
  /// It is broken since the other end closed it or has ended: its kernel says so.
  [[nodiscard]] bool ended() const { return ended_; }
  /// All has been handed to the kernel.
  [[nodiscard]] bool flushed() const { return frames().unsent() == 0; }
  [[nodiscard]] Clock::time_point last_heard() const { return last_heard_; }
  [[nodiscard]] int descriptor() const { return socket_.descriptor(); }
  /// No more will be sent; the other end sees the end of the connection after what was sent.
  void end_sending();

 private:
  void progress();
  void flush();
  [[nodiscard]] const rendezvous::FrameBuffer& frames() const { return socket_.frames(); }

  EventLoop& loop_;
  rendezvous::Socket socket_;
  EventLoop::Ready ready_;
  std::size_t longest_;
  bool hears_ = true;
  bool waits_to_write_ = false;
  bool broken_ = false;
  bool ended_ = false;
  Clock::time_point last_heard_ = Clock::now();
};

}  // namespace rollcall::elastic
