#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/elastic/coordinator.h"
#include "runtime/elastic/event_loop.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::elastic {

/// A connection between two agents in an event loop: frames go out without waiting, what does not fit is kept. What the
/// other end can cost is bounded: a turn of the loop takes 16 KiB from it, and where it does not read, 8 MiB are kept.
/// Owns the socket. Not movable: the loop knows it.
class Connection {
 public:
  /// `ready` is called when something arrived, or the other end is gone. `longest`: bytes that a frame may have, its
  /// length included; a longer one breaks the connection.
  Connection(EventLoop& loop, rendezvous::Socket socket, EventLoop::Ready ready, std::size_t longest = kLongest);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// Bytes of the longest frame that is taken from who is known.
  static constexpr std::size_t kLongest = rendezvous::kFrameHeader + rendezvous::kLongestFrame;

  void send(std::string_view text) { send_frame(rendezvous::encode_frame(text)); }
  /// What encode_frame() made, which many are told. Nothing of it is kept where the kernel takes all.
  void send_frame(std::string_view frame);
  /// The other end has shown who it is: frames of kLongest bytes from now on.
  void trust() { longest_ = kLongest; }
  /// Nothing that it says counts any longer: what has arrived and what will arrive is thrown away.
  void stop_hearing();
  /// The next message that arrived, or nothing yet.
  [[nodiscard]] std::optional<std::string> next();
  /// The other end is gone, speaks something else or does not read; what had arrived before is still given.
  [[nodiscard]] bool broken() const { return broken_; }
  /// It is broken since the other end closed it or has ended: its kernel says so.
  [[nodiscard]] bool ended() const { return ended_; }
  /// All has been handed to the kernel.
  [[nodiscard]] bool flushed() const { return sent_ == outgoing_.size(); }
  [[nodiscard]] Clock::time_point last_heard() const { return last_heard_; }
  [[nodiscard]] int descriptor() const { return socket_.descriptor(); }
  /// No more will be sent; the other end sees the end of the connection after what was sent.
  void end_sending();

 private:
  void progress();
  void flush();
  /// How many bytes the kernel took.
  std::size_t write(std::string_view bytes);

  EventLoop& loop_;
  rendezvous::Socket socket_;
  EventLoop::Ready ready_;
  std::size_t longest_;
  std::string outgoing_;
  std::size_t sent_ = 0;  ///< at the front of `outgoing_`
  bool hears_ = true;
  bool waits_to_write_ = false;
  bool broken_ = false;
  bool ended_ = false;
  Clock::time_point last_heard_ = Clock::now();
};

}  // namespace rollcall::elastic
