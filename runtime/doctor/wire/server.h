#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/newcomers.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::doctor {

using rendezvous::Clock;
using rendezvous::Socket;

/// Rank 0's end of the exchange: every other rank holds one connection to it. One thread, poll(2); every call ends at
/// its deadline. Who does not know this step's secret is sent away.
class Server {
 public:
  Server(std::vector<rendezvous::Listener> listeners, const rendezvous::Secret& secret, std::uint32_t world_size);

  /// Lets the ranks 1.. report; returns what each said. Ends when all did, at the deadline, or shortly after the last
  /// connection broke where nobody else is awaited.
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

  /// The last that came and was sent away, for people (Newcomers::sent_away()).
  [[nodiscard]] const std::string& sent_away() const { return newcomers_.sent_away(); }

 private:
  static constexpr std::size_t kLongestGreeting = 64;  ///< bytes

  void greet(Socket client, const std::string& text);
  void hear_newcomers();
  void hear_clients(std::map<std::uint32_t, std::string>& answers);
  void wait(Clock::time_point deadline, bool accepting) const;
  [[nodiscard]] bool all_accounted_for(const std::map<std::uint32_t, std::string>& reports) const;

  std::vector<rendezvous::Listener> listeners_;
  std::uint32_t world_size_;
  rendezvous::Newcomers newcomers_;
  std::map<std::uint32_t, Socket> clients_;
  std::map<std::uint32_t, std::string> losses_;
  Clock::time_point last_loss_{};
};

}  // namespace rollcall::doctor
