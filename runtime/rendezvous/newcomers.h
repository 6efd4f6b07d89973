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
struct Stranger {
  std::string who;  ///< "10.0.0.7", "a process of user 1001"
  bool knows_the_secret = false;
};
/// Returns "10.0.0.7, which does not know the secret (rendezvous.secret)".
[[nodiscard]] std::string to_text(const Stranger& stranger);

/// The server's part of the handshake: connections whose peer has not yet sent its hello. Anyone can open them, so
/// their cost is bounded. At most 64 are accepted per turn of the loop, so that its other descriptors are served in
/// between. At most 256 + `expected` are pending; each has 5 s, during which an opening and one hello are read. Where
/// there are too many, or no descriptor is left, the longest-pending ones are closed. A peer without the secret gets no
/// answer; another user's process on this host is rejected even with the secret; another version is refused with a
/// message. Not thread-safe. Not movable, because the loop refers to it.
class Newcomers {
 public:
  /// Receives an authenticated connection, which the callee owns and has to answer, and the peer's hello.
  using Greet = std::function<void(Socket newcomer, const Hello& hello)>;
  using SendAway = std::function<void(const Stranger& stranger)>;

  /// `expected`: how many legitimate peers may connect at once. `loop` calls the two functions.
  Newcomers(EventLoop& loop, Seal seal, std::size_t expected, Greet greet, SendAway send_away);
  Newcomers(const Newcomers&) = delete;
  Newcomers& operator=(const Newcomers&) = delete;
  /// Closes the pending connections and restores the listeners: later connections wait in their queues.
  ~Newcomers();

  /// Accepts connections from this socket from now on.
  void listen(int listener);
  /// Stops accepting until the next tick, for callers without a deadline that see a problem().
  void pause();
  /// Handles deadlines that have passed at `now`.
  void tick(Clock::time_point now);
  [[nodiscard]] bool anybody_waits() const { return !waiting_.empty() || paused_; }
  /// Returns why no connection can be accepted any longer; empty: no problem. Each attempt then takes 2 ms, so that a
  /// caller that retries does not use a whole core.
  [[nodiscard]] const std::string& problem() const { return problem_.empty() ? loop_.problem() : problem_; }

 private:
  struct Waiting {
    Socket socket;
    Clock::time_point until;
  };
  using Place = std::map<std::uint64_t, Waiting>::iterator;

  void accept_from(int listener);
  void cannot_accept(int error);
  void hear(std::uint64_t number);
  void hear_hello(Socket newcomer, const std::string& text);
  void close_longest(std::size_t count);
  Place forget(Place place);

  EventLoop& loop_;
  Seal seal_;
  std::size_t most_;  ///< limit of `waiting_`
  Greet greet_;
  SendAway send_away_;
  std::vector<std::pair<int, int>> listeners_;  ///< with the sockets' earlier flags
  std::map<std::uint64_t, Waiting> waiting_;    ///< in order of arrival
  std::uint64_t came_ = 0;
  std::string problem_;
  bool paused_ = false;
};

}  // namespace rollcall::rendezvous
