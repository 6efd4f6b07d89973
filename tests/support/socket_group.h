#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/checkpoint/format/rank_group.h"

namespace rollcall::testing_support {

/// Ranks as processes that talk through socket pairs, for tests of checkpoints without LibTorch. A peer that dies is
/// noticed at the next word from or to it.
class SocketGroup final : public checkpoint::format::RankGroup {
 public:
  /// `peers`: on rank 0 a socket to each other rank, by rank - 1; elsewhere one to rank 0. Owned.
  SocketGroup(std::uint32_t rank, std::uint32_t size, std::vector<int> peers)
      : rank_(rank), size_(size), peers_(std::move(peers)) {}
  ~SocketGroup() override {
    for (const int peer : peers_) {
      ::close(peer);
    }
  }

  [[nodiscard]] std::uint32_t rank() const override { return rank_; }
  [[nodiscard]] std::uint32_t size() const override { return size_; }

  [[nodiscard]] Result<void> broadcast(std::vector<std::byte>& bytes) override {
    for (const int peer : peers_) {
      if (rank_ == 0 ? !send(peer, bytes) : !receive(peer, bytes)) {
        return lost();
      }
    }
    return {};
  }

  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> gather(std::span<const std::byte> mine) override {
    std::vector<std::vector<std::byte>> all;
    if (rank_ == 0) {
      all.emplace_back(mine.begin(), mine.end());
    }
    for (const int peer : peers_) {
      if (rank_ == 0 ? !receive(peer, all.emplace_back()) : !send(peer, mine)) {
        return lost();
      }
    }
    return all;
  }

 private:
  static Error lost() { return fail("checkpoint", "", "a peer was lost", "", ErrorKind::Unavailable); }

  static bool transfer(int peer, std::byte* bytes, std::size_t count, bool out) {
    while (count > 0) {
      const ssize_t done = out ? ::send(peer, bytes, count, MSG_NOSIGNAL) : ::recv(peer, bytes, count, 0);
      if (done < 0 && errno == EINTR) {
        continue;
      }
      if (done <= 0) {
        return false;
      }
      bytes += done;
      count -= static_cast<std::size_t>(done);
    }
    return true;
  }

  static bool send(int peer, std::span<const std::byte> bytes) {
    std::size_t size = bytes.size();
    return transfer(peer, reinterpret_cast<std::byte*>(&size), sizeof size, true) &&
           transfer(peer, const_cast<std::byte*>(bytes.data()), size, true);
  }

  static bool receive(int peer, std::vector<std::byte>& bytes) {
    std::size_t size = 0;
    if (!transfer(peer, reinterpret_cast<std::byte*>(&size), sizeof size, false)) {
      return false;
    }
    bytes.resize(size);
    return transfer(peer, bytes.data(), size, false);
  }

  std::uint32_t rank_;
  std::uint32_t size_;
  std::vector<int> peers_;
};

/// Forks `size` ranks that run `work` and end with what it returns. Their process ids, by rank.
inline std::vector<pid_t> fork_ranks(std::uint32_t size,
                                     const std::function<int(checkpoint::format::RankGroup&)>& work) {
  std::vector<std::array<int, 2>> pairs(size > 0 ? size - 1 : 0);
  for (auto& pair : pairs) {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
      std::abort();
    }
  }
  std::vector<pid_t> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    ranks.push_back(::fork());
    if (ranks.back() == 0) {
      std::vector<int> peers;
      for (std::uint32_t other = 1; other < size; ++other) {
        const auto& [at_rank_0, at_other] = pairs[other - 1];
        if (rank == 0 || rank == other) {
          peers.push_back(rank == 0 ? at_rank_0 : at_other);
        }
        if (rank != 0) {
          ::close(at_rank_0);
        }
        if (rank != other) {
          ::close(at_other);
        }
      }
      SocketGroup group(rank, size, std::move(peers));
      ::_exit(work(group));
    }
  }
  for (const auto& pair : pairs) {
    ::close(pair[0]);
    ::close(pair[1]);
  }
  return ranks;
}

/// Waits for all; whether each ended with 0.
inline bool all_ended_well(const std::vector<pid_t>& ranks) {
  bool well = true;
  for (const pid_t rank : ranks) {
    int status = 0;
    well = ::waitpid(rank, &status, 0) == rank && status == 0 && well;
  }
  return well;
}

}  // namespace rollcall::testing_support
