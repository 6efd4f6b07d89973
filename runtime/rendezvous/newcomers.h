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

/// Who spoke as rollcall does and was sent away untold.
struct Stranger {
  std::string who;  ///< "10.0.0.7", "a process of user 1001"
  bool knows_the_secret = false;
};
/// "10.0.0.7, which does not know the secret (rendezvous.secret)".
[[nodiscard]] std::string to_text(const Stranger& stranger);

/// The server's part of a handshake: connections whose other end has not said its hello yet. Anybody can open them, so
/// what they cost is bounded: at most 64 are accepted in one turn of the loop, whose other descriptors have theirs
/// then; 256 and `expected` wait at most; each gets 5 s, whatever the others do, and an opening and one hello are read
/// of it. Where no further one can wait, or no descriptor is to be had, those are closed that have been there for
/// longest. Who does not know the secret is told nothing, and another user's
/// process of this host is sent away whatever it knows; another version is refused by name. Not thread-safe. Not
/// movable: the loop knows it.
class Newcomers {
 public:
  /// Who knows the secret: the connection, which is the caller's now, and what it said. It is still to be answered.
  using Greet = std::function<void(Socket newcomer, const Hello& hello)>;
  using SendAway = std::function<void(const Stranger& stranger)>;

  /// `expected`: how many may come at once who are no strangers. `loop` calls the two.
  Newcomers(EventLoop& loop, Seal seal, std::size_t expected, Greet greet, SendAway send_away);
  Newcomers(const Newcomers&) = delete;
  Newcomers& operator=(const Newcomers&) = delete;
  /// Hangs up on those who wait and leaves the listeners as they were: whoever connects from then on waits there.
  ~Newcomers();

  /// Accepts from this socket from now on.
  void listen(int listener);
  /// Accepts nobody until the next tick: for callers without a deadline, where there is a problem().
  void pause();
  /// Time has passed.
  void tick(Clock::time_point now);
  [[nodiscard]] bool anybody_waits() const { return !waiting_.empty() || paused_; }
  /// Why nobody can be accepted any longer; empty: all is well. Each attempt takes 2 ms then, so that a caller who goes
  /// on does not use up a core.
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
  std::size_t most_;  ///< of `waiting_`
  Greet greet_;
  SendAway send_away_;
  std::vector<std::pair<int, int>> listeners_;  ///< and their flags
  std::map<std::uint64_t, Waiting> waiting_;    ///< in the order in which they came
  std::uint64_t came_ = 0;
  std::string problem_;
  bool paused_ = false;
};

}  // namespace rollcall::rendezvous
