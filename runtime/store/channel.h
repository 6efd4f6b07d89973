#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "runtime/rendezvous/socket.h"

namespace rollcall::store {

/// Messages on a connection that passed admission. One that is longer than a frame may be goes in several, each of
/// which begins with a byte that says whether more follow. Waits for nothing. Not thread-safe.
class Channel {
 public:
  /// `longest`: bytes of a message of the other end.
  Channel(rendezvous::Socket socket, std::size_t longest) : socket_(std::move(socket)), longest_(longest) {}

  [[nodiscard]] int descriptor() const { return socket_.descriptor(); }

  void queue(std::string message);
  /// Sends what the kernel takes of what is queued; false where the other end is gone.
  [[nodiscard]] bool flush();
  /// Whether some of it is still to be sent.
  [[nodiscard]] bool has_unsent() { return unsent() > 0; }
  /// Whether more should wait elsewhere until some of it is sent.
  [[nodiscard]] bool is_full();

  /// Takes what has arrived; false where the other end is gone. What it said before still comes out of next().
  [[nodiscard]] bool take_arrived() { return socket_.take_arrived(); }
  /// The other end's next whole message, or nothing yet.
  [[nodiscard]] std::optional<std::string> next();
  /// What came is no message of at most `longest` bytes.
  [[nodiscard]] bool broken() { return broken_ || socket_.frames().broken(); }

 private:
  [[nodiscard]] std::size_t unsent() { return queued_ + socket_.frames().unsent(); }
  void say_next();

  rendezvous::Socket socket_;
  std::size_t longest_;
  std::deque<std::string> queue_;
  std::size_t queued_ = 0;  ///< bytes in the queue, with one for each message
  std::size_t said_ = 0;    ///< of the first in the queue
  std::string arrived_;     ///< the beginning of a message
  bool broken_ = false;
};

}  // namespace rollcall::store
