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

/// A rank sets this key to say that it needs the store no more; the server does for one whose connection is closed.
[[nodiscard]] std::string left_key(std::uint32_t rank);
/// The rank whose connection was closed, the `number`-th from 1: whether or not it had said that it leaves, its process
/// answers nobody any more.
[[nodiscard]] std::string closed_key(std::uint64_t number);

/// The keys of a world, in rank 0's process: its own way to them, which needs no connection, and a thread that answers
/// the other ranks on the connections that admission accepted. It listens nowhere. A rank that does not read its
/// answers is not heard until it does; one that says what no rank says is hung up on.
class Server final : public Access {
 public:
  /// `members` by rank; `most`: bytes of the table. Errors (Unavailable): no descriptor or no thread is to be had.
  [[nodiscard]] static Result<std::shared_ptr<Server>> serve(std::map<std::uint32_t, rendezvous::Socket> members,
                                                             std::size_t most);
  ~Server() override;

  /// Hangs up on all ranks; who waits, and whoever asks from now on, is told that the store is gone. Once is enough.
  void close();

 private:
  struct Peer {
    std::uint32_t rank = 0;
    Channel channel;
    std::deque<std::pair<std::uint64_t, Answer>> answers = {};  ///< the channel has not got them yet
    bool waits_to_send = false;                                 ///< as epoll knows it
  };

  explicit Server(std::size_t most) : table_(most) {}
  [[nodiscard]] Result<void> start(std::map<std::uint32_t, rendezvous::Socket>&& members);
  [[nodiscard]] Answer carry_out(Request request, const Patience& patience) override;

  void run();
  void hear(Peer& peer);
  [[nodiscard]] bool take_in(Peer& peer);
  void deliver(Answers&& answers, const Peer* speaking);
  [[nodiscard]] bool send(Peer& peer) const;
  void hang_up(std::uint32_t rank);

  int epoll_ = -1;
  int stop_ = -1;  ///< an eventfd that ends the thread
  std::thread thread_;
  std::mutex mutex_;  ///< of all that follows
  bool closed_ = false;
  Table table_;
  std::map<std::uint32_t, Peer> peers_;
  std::unordered_map<std::uint64_t, Waiter*> waiters_;  ///< threads of this process, by number
  std::uint64_t asked_ = 0;
  std::uint64_t closed_connections_ = 0;
};

}  // namespace rollcall::store
