#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/elastic/coordinator.h"
#include "runtime/rendezvous/event_loop.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::elastic {

using rendezvous::EventLoop;

/// A connection between two agents in an event loop. Sending never blocks: frames that the kernel does not take are
/// buffered. The cost of a peer is bounded: one turn of the loop reads at most 16 KiB from it, and at most 8 MiB are
/// buffered for a peer that does not read. Owns the socket. Not movable, because the loop refers to it.
class Connection {
 public:
  /// `ready` is called when data has arrived or the peer is gone. The connection breaks where the peer does not know
  /// the socket's secret, or sends a message of more than `longest` bytes.
  Connection(EventLoop& loop, rendezvous::Socket socket, EventLoop::Ready ready, std::size_t longest = kLongest);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// The largest message that is ever accepted, in bytes.
  static constexpr std::size_t kLongest = rendezvous::kLongestFrame;

  /// Accepts messages of up to kLongest bytes from now on.
  void trust() { longest_ = kLongest; }
  void send(std::string_view text);
  /// Returns whether the peer has begun a handshake, which does not yet prove that it knows the secret.
  [[nodiscard]] bool opened() const { return frames().opened(); }
  /// Returns whether the peer has proved that it knows the secret.
  [[nodiscard]] bool proven() const { return frames().proven(); }
  /// Ignores the peer from now on: discards what has arrived and what will arrive.
  void stop_receiving();
  /// Returns the next message that has arrived, or nothing.
  [[nodiscard]] std::optional<std::string> next();
  /// Returns whether the peer is gone, violates the protocol or does not read. Earlier messages remain available.
  [[nodiscard]] bool broken() const { return broken_ || frames().broken(); }
  /// Returns whether the connection is broken because the peer closed it or has ended, as its kernel reported.
  [[nodiscard]] bool ended() const { return ended_; }
  /// Returns whether the kernel has taken all data.
  [[nodiscard]] bool flushed() const { return frames().unsent() == 0; }
  [[nodiscard]] Clock::time_point last_received() const { return last_received_; }
  [[nodiscard]] int descriptor() const { return socket_.descriptor(); }
  /// Shuts down the sending side; the peer sees the end of the connection after the data sent so far.
  void end_sending();

 private:
  void progress();
  void flush();
  [[nodiscard]] const rendezvous::FrameBuffer& frames() const { return socket_.frames(); }

  EventLoop& loop_;
  rendezvous::Socket socket_;
  EventLoop::Ready ready_;
  std::size_t longest_;
  bool receives_ = true;
  bool waits_to_write_ = false;
  bool broken_ = false;
  bool ended_ = false;
  Clock::time_point last_received_ = Clock::now();
};

}  // namespace rollcall::elastic
