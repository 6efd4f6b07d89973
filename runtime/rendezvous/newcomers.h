#pragma once

#include <poll.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::rendezvous {

/// Connections whose other end has not shown yet that it knows the secret. Anybody can open them, so what they cost is
/// bounded: a turn accepts a limited number, however many more come meanwhile; so many wait at most; each gets 5 s,
/// whatever the others do, and a short opening and one short frame are read of it. Where no further one can wait, or no
/// descriptor is to be had, those are closed that were heard and have been there for longest, those first that have
/// said nothing. Who does not know the secret is told nothing, and another user's process of this host is sent away
/// whatever it knows. The caller looks at its deadline between turns. Not thread-safe.
class Newcomers {
 public:
  /// Who knows the secret: its first text, and the connection, which is the caller's now.
  using Greet = std::function<void(Socket newcomer, const std::string& text)>;

  /// `longest`: bytes that a first text may have. No more are read before somebody is greeted. `expected`: how many may
  /// come at once who are no strangers.
  Newcomers(Seal seal, std::size_t longest, std::size_t expected);

  /// One turn: accepts from the non-blocking socket `listener`, then hears everybody. Who left, is no rollcall, or says
  /// too much is closed. Returns "", or why nobody can be accepted: then 2 ms have passed, so that a caller who goes on
  /// does not use up a core.
  [[nodiscard]] std::string turn(int listener, const Greet& greet);

  /// Adds what a turn waits for, besides the listener.
  void add_to(std::vector<pollfd>& waiting) const;

  /// Who spoke as rollcall does and was sent away, the last one, for people: "10.0.0.7, which does not know the
  /// secret", "a process of user 1001"; empty: nobody.
  [[nodiscard]] const std::string& sent_away() const { return sent_away_; }

 private:
  struct Waiting {
    Socket socket;
    Clock::time_point until;
  };

  void hear_all(const Greet& greet);
  void hear(Socket& newcomer, const Greet& greet);
  void close_longest(std::size_t count);

  Seal seal_;
  std::size_t longest_;
  std::size_t most_;              ///< of `waiting_`
  std::vector<Waiting> waiting_;  ///< the longest there first
  std::string sent_away_;
};

}  // namespace rollcall::rendezvous
