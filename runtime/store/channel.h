#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "runtime/rendezvous/socket.h"

namespace rollcall::store {

/// Messages on an admitted connection. A message longer than a frame is sent in several, each of which begins with a
/// byte that says whether more follow. Never waits. Not thread-safe.
class Channel {
 public:
  /// `longest`: the largest message of the peer, in bytes.
  Channel(rendezvous::Socket socket, std::size_t longest) : socket_(std::move(socket)), longest_(longest) {}

  [[nodiscard]] int descriptor() const { return socket_.descriptor(); }

  void queue(std::string message);
  /// Sends as much of the queue as the kernel takes; false where the peer is gone.
  [[nodiscard]] bool flush();
  /// Returns whether some of the queue is still to be sent.
  [[nodiscard]] bool has_unsent() { return unsent() > 0; }
  /// Returns whether further messages should not be queued until some of the queue is sent.
  [[nodiscard]] bool is_full();

  /// Receives what has arrived; false where the peer is gone. next() still returns earlier messages.
  [[nodiscard]] bool take_arrived() { return socket_.take_arrived(); }
  /// Returns the peer's next complete message, or nothing.
  [[nodiscard]] std::optional<std::string> next();
  /// Returns whether the peer's data is not a message of at most `longest` bytes.
  [[nodiscard]] bool broken() { return broken_ || socket_.frames().broken(); }

 private:
  [[nodiscard]] std::size_t unsent() { return queued_ + socket_.frames().unsent(); }
  void queue_next();

  rendezvous::Socket socket_;
  std::size_t longest_;
  std::deque<std::string> queue_;
  std::size_t queued_ = 0;          ///< bytes in the queue, plus one for each message
  std::size_t taken_of_first_ = 0;  ///< bytes sent of the first message in the queue
  std::string arrived_;             ///< the beginning of a message
  bool broken_ = false;
};

}  // namespace rollcall::store
