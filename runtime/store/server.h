#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "runtime/base/result.h"
#include "runtime/rendezvous/socket.h"
#include "runtime/store/access.h"
#include "runtime/store/channel.h"
#include "runtime/store/table.h"

namespace rollcall::store {

/// Returns the key that a rank sets once it no longer needs the store; the server sets it for a closed connection.
[[nodiscard]] std::string left_key(std::uint32_t rank);
/// Returns the key that holds the rank of the `number`-th closed connection, counted from 1. That rank's process
/// answers nobody any longer, whether or not it had announced that it leaves.
[[nodiscard]] std::string closed_key(std::uint64_t number);

/// The keys of a world in rank 0's process. Rank 0 accesses them directly; a thread answers the other ranks on the
/// connections that admission accepted. It does not listen for new connections. Requests of a rank that does not read
/// its answers wait until it does; the connection to a rank that violates the protocol is closed.
class Server final : public Access {
 public:
  /// `members` by rank; `most`: limit of the table in bytes. Errors (Unavailable): no descriptor or thread is left.
  [[nodiscard]] static Result<std::shared_ptr<Server>> serve(std::map<std::uint32_t, rendezvous::Socket> members,
                                                             std::size_t most);
  ~Server() override;

  /// Closes all connections; pending and later requests get the answer Gone. May be called more than once.
  void close();

 private:
  struct Peer {
    std::uint32_t rank = 0;
    Channel channel;
    std::deque<std::pair<std::uint64_t, Answer>> answers = {};  ///< not yet given to the channel
    bool waits_to_send = false;                                 ///< whether epoll reports when it is writable
  };

  explicit Server(std::size_t most) : table_(most) {}
  [[nodiscard]] Result<void> start(std::map<std::uint32_t, rendezvous::Socket>&& members);
  [[nodiscard]] Answer carry_out(Request request, const Patience& patience) override;

  void run();
  void receive(Peer& peer);
  [[nodiscard]] bool take_in(Peer& peer);
  void deliver(Answers&& answers, const Peer* speaking);
  [[nodiscard]] bool send(Peer& peer) const;
  void hang_up(std::uint32_t rank);

  int epoll_ = -1;
  int stop_ = -1;  ///< an eventfd that ends the thread
  std::thread thread_;
  std::mutex mutex_;  ///< protects the members below
  bool closed_ = false;
  Table table_;
  std::map<std::uint32_t, Peer> peers_;
  std::unordered_map<std::uint64_t, Waiter*> waiters_;  ///< threads of this process, by request number
  std::uint64_t asked_ = 0;
  std::uint64_t closed_connections_ = 0;
};

}  // namespace rollcall::store
