#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/rendezvous/event_loop.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/pending_connections.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::doctor {

using rendezvous::Clock;
using rendezvous::Socket;

/// Rank 0's end of the exchange: every other rank has one connection to it. Uses one thread; every call ends at its
/// deadline. Peers that do not know this step's secret are rejected.
class Server {
 public:
  Server(std::vector<rendezvous::Listener> listeners, const rendezvous::Secret& secret, std::uint32_t world_size);

  /// Waits for the reports of ranks 1 and higher and returns them. Ends when all have reported, at the deadline, or
  /// shortly after the last connection broke where no other rank is missing. Accepts no connections between two calls.
  [[nodiscard]] std::map<std::uint32_t, std::string> gather(Clock::time_point deadline);

  /// Sends each rank its text, runs `meanwhile` (rank 0's own part, if any), and waits for one answer of each. A rank
  /// that does not answer is missing in the result; losses() has the reason. Ranks that are not connected are skipped.
  [[nodiscard]] std::map<std::uint32_t, std::string> ask(const std::map<std::uint32_t, std::string>& texts,
                                                         Clock::time_point deadline,
                                                         const std::function<void()>& meanwhile = {});

  /// Sends the texts without waiting for answers.
  void send(const std::map<std::uint32_t, std::string>& texts, Clock::time_point deadline);

  /// Returns the ranks whose connection broke or that did not answer in time, with the reason.
  [[nodiscard]] const std::map<std::uint32_t, std::string>& losses() const { return losses_; }

  /// Returns the last rejected peer, for messages.
  [[nodiscard]] const std::string& last_rejected() const { return last_rejected_; }

 private:
  void greet(Socket client, const rendezvous::Hello& hello);
  void receive(std::uint32_t rank);
  void drop(std::uint32_t rank);
  void lose(std::uint32_t rank);
  [[nodiscard]] bool all_accounted_for() const;

  std::vector<rendezvous::Listener> listeners_;
  rendezvous::Seal seal_;
  std::uint32_t world_size_;
  std::map<std::uint32_t, Socket> clients_;
  std::map<std::uint32_t, std::string> received_;  ///< not yet returned to the caller
  std::map<std::uint32_t, std::string> losses_;
  Clock::time_point last_loss_{};
  std::string last_rejected_;
  rendezvous::EventLoop loop_;
};

}  // namespace rollcall::doctor
