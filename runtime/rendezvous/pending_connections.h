#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/rendezvous/event_loop.h"
#include "runtime/rendezvous/handshake.h"

namespace rollcall::rendezvous {

/// A peer that used rollcall's protocol and was rejected without an answer.
struct RejectedPeer {
  std::string who;  ///< "10.0.0.7", "a process of user 1001"
  bool knows_the_secret = false;
};
/// Returns "10.0.0.7, which does not know the secret (rendezvous.secret)".
[[nodiscard]] std::string to_text(const RejectedPeer& rejected);

/// The server's part of the handshake: connections whose peer has not yet sent its hello. Anyone can open them, so
/// their cost is bounded. At most 64 are accepted per turn of the loop, so that its other descriptors are served in
/// between. At most 256 + `expected` are pending; each has 5 s, during which an opening and one hello are read. Where
/// there are too many, or no descriptor is left, the longest-pending ones are closed. A peer without the secret gets no
/// answer; another user's process on this host is rejected even with the secret; another version is refused with a
/// message. Not thread-safe. Not movable, because the loop refers to it.
class PendingConnections {
 public:
  /// Receives an authenticated connection, which the callee owns and has to answer, and the peer's hello.
  using OnHello = std::function<void(Socket connection, const Hello& hello)>;
  using OnRejected = std::function<void(const RejectedPeer& rejected)>;

  /// `expected`: how many legitimate peers may connect at once. `loop` calls the two functions.
  PendingConnections(EventLoop& loop, Seal seal, std::size_t expected, OnHello on_hello, OnRejected on_rejected);
  PendingConnections(const PendingConnections&) = delete;
  PendingConnections& operator=(const PendingConnections&) = delete;
  /// Closes the pending connections and restores the listeners: later connections wait in their queues.
  ~PendingConnections();

  /// Accepts connections from this socket from now on.
  void listen(int listener);
  /// Stops accepting until the next tick, for callers without a deadline that see a problem().
  void pause();
  /// Handles deadlines that have passed at `now`.
  void tick(Clock::time_point now);
  [[nodiscard]] bool any_pending() const { return !waiting_.empty() || paused_; }
  /// Returns why no connection can be accepted any longer; empty: no problem. Each attempt then takes 2 ms, so that a
  /// caller that retries does not use a whole core.
  [[nodiscard]] const std::string& problem() const { return problem_.empty() ? loop_.problem() : problem_; }

 private:
  struct Waiting {
    Socket socket;
    Clock::time_point until;
  };
  using Entry = std::map<std::uint64_t, Waiting>::iterator;

  void accept_from(int listener);
  void cannot_accept(int error);
  void receive(std::uint64_t number);
  void receive_hello(Socket connection, const std::string& text);
  void close_oldest(std::size_t count);
  Entry forget(Entry entry);

  EventLoop& loop_;
  Seal seal_;
  std::size_t most_;  ///< limit of `waiting_`
  OnHello on_hello_;
  OnRejected on_rejected_;
  std::vector<std::pair<int, int>> listeners_;  ///< with the sockets' earlier flags
  std::map<std::uint64_t, Waiting> waiting_;    ///< in order of arrival
  std::uint64_t accepted_ = 0;
  std::string problem_;
  bool paused_ = false;
};

}  // namespace rollcall::rendezvous
