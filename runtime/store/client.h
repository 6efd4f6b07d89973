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

/// The way to the keys over the connection on which rank 0 admitted this process. It has no thread: of those that wait
/// for answers one reads, and hands the others theirs.
class Client final : public Access {
 public:
  /// `most`: of the server's table, and so of an answer. Errors (Unavailable): no descriptor is to be had.
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

  const int wake_;    ///< an eventfd: the thread that reads is to look what is to be sent
  std::mutex mutex_;  ///< of all that follows
  Channel channel_;
  std::map<std::uint64_t, Waiter*> waiters_;  ///< whose answers have not come, by the number of their request
  std::uint64_t asked_ = 0;
  std::string refusal_;   ///< of a request for whose answer nobody waited
  bool reading_ = false;  ///< one of those that wait reads
  bool gone_ = false;
};

}  // namespace rollcall::store
