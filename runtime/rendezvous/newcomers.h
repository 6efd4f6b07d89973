#pragma once

#include <poll.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::rendezvous {

/// Connections whose other end has not said yet who it is. Anybody can open them, so what they cost is bounded: a turn
/// accepts a limited number, however many more come meanwhile; each gets 5 s to speak, whatever the others do; and
/// where no further descriptor is to be had, those are closed that were heard and have been silent for longest. The
/// caller looks at its deadline between turns. Not thread-safe.
class Newcomers {
 public:
  /// Who has spoken: its first frame, and the connection, which is the caller's now.
  using Greet = std::function<void(Socket newcomer, const std::string& text)>;

  /// `longest`: bytes that a first frame may have, its length included. No more are read before somebody is greeted.
  explicit Newcomers(std::size_t longest) : longest_(longest) {}

  /// One turn: accepts from the non-blocking socket `listener`, then hears everybody. Who left, is no rollcall, or says
  /// too much is closed. Returns "", or why nobody can be accepted: then 2 ms have passed, so that a caller who goes on
  /// does not use up a core.
  [[nodiscard]] std::string turn(int listener, const Greet& greet);

  /// Adds what a turn waits for, besides the listener.
  void add_to(std::vector<pollfd>& waiting) const;

 private:
  struct Waiting {
    Socket socket;
    Clock::time_point until;
  };

  void hear_all(const Greet& greet);
  void close_silent();

  std::size_t longest_;
  std::vector<Waiting> waiting_;  ///< the longest there first
};

}  // namespace rollcall::rendezvous
