#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/rendezvous/event_loop.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/newcomers.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::doctor {

using rendezvous::Clock;
using rendezvous::Socket;

/// Rank 0's end of the exchange: every other rank holds one connection to it. One thread; every call ends at its
/// deadline. Who does not know this step's secret is sent away.
class Server {
 public:
  Server(std::vector<rendezvous::Listener> listeners, const rendezvous::Secret& secret, std::uint32_t world_size);

  /// Lets the ranks 1.. report; returns what each said. Ends when all did, at the deadline, or shortly after the last
  /// connection broke where nobody else is awaited. Nobody is taken in between two calls.
  [[nodiscard]] std::map<std::uint32_t, std::string> gather(Clock::time_point deadline);

  /// Sends each rank its text, runs `meanwhile` (rank 0's own part, if any), and awaits one answer of each. Whoever
  /// does not answer is missing in the result, and why is in losses(). Ranks that are not connected are passed over.
  [[nodiscard]] std::map<std::uint32_t, std::string> ask(const std::map<std::uint32_t, std::string>& texts,
                                                         Clock::time_point deadline,
                                                         const std::function<void()>& meanwhile = {});

  /// Sends without awaiting anything.
  void tell(const std::map<std::uint32_t, std::string>& texts, Clock::time_point deadline);

  /// The ranks whose connection broke, or who did not answer in time, and why.
  [[nodiscard]] const std::map<std::uint32_t, std::string>& losses() const { return losses_; }

  /// The last that came and was sent away, for people.
  [[nodiscard]] const std::string& sent_away() const { return sent_away_; }

 private:
  void greet(Socket client, const rendezvous::Hello& hello);
  void hear(std::uint32_t rank);
  void drop(std::uint32_t rank);
  void lose(std::uint32_t rank);
  [[nodiscard]] bool all_accounted_for() const;

  std::vector<rendezvous::Listener> listeners_;
  rendezvous::Seal seal_;
  std::uint32_t world_size_;
  std::map<std::uint32_t, Socket> clients_;
  std::map<std::uint32_t, std::string> heard_;  ///< and not given to the caller yet
  std::map<std::uint32_t, std::string> losses_;
  Clock::time_point last_loss_{};
  std::string sent_away_;
  rendezvous::EventLoop loop_;
};

}  // namespace rollcall::doctor
