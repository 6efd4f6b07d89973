#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/elastic/coordinator.h"
#include "runtime/elastic/event_loop.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::elastic {

/// A connection between two agents in an event loop: frames go out without waiting, what does not fit is kept. Owns the
/// socket. Not movable: the loop knows it.
class Connection {
 public:
  /// `ready` is called when something arrived, or the other end is gone.
  Connection(EventLoop& loop, rendezvous::Socket socket, EventLoop::Ready ready);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  void send(std::string_view text);
  /// The next message that arrived, or nothing yet.
  [[nodiscard]] std::optional<std::string> next();
  /// The other end is gone or speaks something else; what had arrived before is still given.
  [[nodiscard]] bool broken() const { return broken_; }
  /// All has been handed to the kernel.
  [[nodiscard]] bool flushed() const { return outgoing_.empty(); }
  [[nodiscard]] Clock::time_point last_heard() const { return last_heard_; }
  [[nodiscard]] int descriptor() const { return socket_.descriptor(); }
  /// No more will be sent; the other end sees the end of the connection after what was sent.
  void end_sending();

 private:
  void progress();
  void flush();

  EventLoop& loop_;
  rendezvous::Socket socket_;
  EventLoop::Ready ready_;
  std::string outgoing_;
  bool waits_to_write_ = false;
  bool broken_ = false;
  Clock::time_point last_heard_ = Clock::now();
};

}  // namespace rollcall::elastic
