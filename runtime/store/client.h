#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/base/result.h"
#include "runtime/store/access.h"
#include "runtime/store/channel.h"

namespace rollcall::store {

/// Access to the keys over the connection on which rank 0 admitted this process. Has no thread: one of the threads that
/// wait for answers reads for all of them.
class Client final : public Access {
 public:
  /// `most`: limit of the server's table, and so of an answer. Errors (Unavailable): no descriptor is left.
  [[nodiscard]] static Result<std::shared_ptr<Client>> over(rendezvous::Socket head, std::size_t most);
  ~Client() override;

 private:
  Client(rendezvous::Socket head, std::size_t most, int wake) : wake_(wake), channel_(std::move(head), most) {}
  [[nodiscard]] Answer carry_out(Request request, const Patience& patience) override;

  [[nodiscard]] Answer await(std::unique_lock<std::mutex>& lock, const Request& request, const Patience& patience);
  void send(std::string message);
  void read_for_all(std::unique_lock<std::mutex>& lock, Patience::Clock::time_point until);
  [[nodiscard]] bool hand_out();
  void lose();

  const int wake_;    ///< an eventfd that makes the reading thread send queued requests
  std::mutex mutex_;  ///< protects the members below
  Channel channel_;
  std::map<std::uint64_t, Waiter*> waiters_;  ///< threads without an answer, by the number of their request
  std::uint64_t asked_ = 0;
  std::string refusal_;   ///< answer to a refused request for which no thread waited
  bool reading_ = false;  ///< one of the waiting threads reads
  bool gone_ = false;
};

}  // namespace rollcall::store
