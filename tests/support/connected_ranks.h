#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/rendezvous/meet.h"

namespace rollcall::testing_support {

/// A connection of rank 0 with each other rank, as admission leaves them, made before the ranks are forked.
class ConnectedRanks {
 public:
  explicit ConnectedRanks(std::uint32_t world_size) {
    for (std::uint32_t rank = 1; rank < world_size; ++rank) {
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        throw std::runtime_error("socketpair: " + errno_text(errno));
      }
      pairs_.emplace_back(rendezvous::Socket(ends[0]), rendezvous::Socket(ends[1]));
    }
  }

  /// What `rank` has of it, as meet() returns it; all else is closed in this process.
  rendezvous::Meeting take(std::uint32_t rank) {
    rendezvous::Meeting meeting;
    for (std::uint32_t other = 1; other <= pairs_.size(); ++other) {
      if (rank == 0) {
        meeting.members.emplace(other, std::move(pairs_[other - 1].first));
      } else if (rank == other) {
        meeting.head = std::move(pairs_[other - 1].second);
      }
    }
    close_all();
    return meeting;
  }
  /// Both ends of two ranks, for one process.
  std::pair<rendezvous::Meeting, rendezvous::Meeting> take_both() {
    std::pair<rendezvous::Meeting, rendezvous::Meeting> both;
    both.first.members.emplace(1, std::move(pairs_.at(0).first));
    both.second.head = std::move(pairs_.at(0).second);
    return both;
  }
  /// For the process that forked the ranks: they see each other end only then.
  void close_all() { pairs_.clear(); }

 private:
  std::vector<std::pair<rendezvous::Socket, rendezvous::Socket>> pairs_;
};

}  // namespace rollcall::testing_support
