#pragma once

#include <ucp/api/ucp.h>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/distributed/algorithms/execution.h"
#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group::ucx {

/// Why a group can no longer be used.
struct Failure {
  std::uint32_t rank = 0;  ///< the rank that failed, as far as this rank knows
  std::string reason;      ///< "rank 2 is gone: Connection reset by remote peer"
  bool answers = false;    ///< whether that rank is alive and can receive a notice
};

/// The states of a group's other ranks: which have left in good order, are suspected to be lost, or are lost; and the
/// failure that ends the group. Independent of UCX. One thread at a time.
class Peers {
 public:
  Peers(std::uint32_t world_size, const RankNames& names) : names_(names), peers_(world_size) {}

  [[nodiscard]] const RankNames& names() const { return names_; }
  [[nodiscard]] const std::optional<Failure>& failure() const { return failure_; }
  /// Records the failure of the group. The first one stays.
  void fail_with(Failure failure);
  /// Records that `peer` calls another operation than this rank, as `what` shows.
  void fail_with_difference(std::uint32_t peer, const std::string& what);
  /// Records that a message to or from `peer` failed.
  void fail_message(std::uint32_t peer, const std::string& reason);

  /// Records that `peer` leaves in good order.
  void leaves(std::uint32_t peer) { peers_.at(peer).left = true; }
  [[nodiscard]] bool has_left(std::uint32_t peer) const { return peers_.at(peer).left; }
  /// Records that `peer` has acknowledged this rank's notice.
  void acknowledges(std::uint32_t peer) { peers_.at(peer).acknowledged = true; }
  [[nodiscard]] bool has_acknowledged(std::uint32_t peer) const { return peers_.at(peer).acknowledged; }
  /// Records that the process of `peer` has ended. That becomes a failure with lose(): its last message may be unread.
  void ended(std::uint32_t peer) { peers_.at(peer).ended = true; }
  /// Records that `peer` is lost: a failure, unless it has left.
  void lose(std::uint32_t peer, const std::string& reason);

  /// Records that the endpoint of `peer` broke: it is lost, unless it reports within milliseconds that it left or
  /// failed.
  void suspect(std::uint32_t peer, const std::string& reason);
  [[nodiscard]] bool is_suspect(std::uint32_t peer) const { return !peers_.at(peer).suspicion.empty(); }
  [[nodiscard]] bool has_suspects() const { return suspects_ > 0; }
  /// Calls lose() for suspects whose time is over. Call it often while has_suspects().
  void judge_suspects();

  /// Returns whether `peer` may still receive a notice.
  [[nodiscard]] bool is_reachable(std::uint32_t peer) const;

 private:
  struct Peer {
    bool left = false;
    bool acknowledged = false;
    bool ended = false;
    std::string suspicion;                            ///< why it is suspected to be lost; empty if it is not
    std::chrono::steady_clock::time_point suspected;  ///< when suspicion was set
  };

  RankNames names_;
  std::vector<Peer> peers_;
  std::size_t suspects_ = 0;
  std::optional<Failure> failure_;
};

/// UCP's 64-bit tags: kind (2 bits), generation of the group (14), source rank (16), name (32). The generation keeps
/// late messages of a failed group out of its successor.
class Tags {
 public:
  static constexpr std::uint64_t kWhole = ~std::uint64_t{0};
  static constexpr std::uint64_t kFromAnybody = ~(std::uint64_t{0xffff} << 32);

  explicit Tags(std::uint32_t generation) : generation_(std::uint64_t{generation & 0x3fffU} << 48) {}

  /// Numbers wrap around at 2^16: only messages that may be pending at the same time need different names.
  [[nodiscard]] std::uint64_t collective(std::uint32_t source, MessageId name) const {
    return tag(0, source, (name.operation & 0xffffU) << 16 | (name.message & 0xffffU));
  }
  [[nodiscard]] std::uint64_t notice(std::uint32_t source) const { return tag(1, source, 0); }

  [[nodiscard]] static std::uint32_t source_of(std::uint64_t tag) {
    return static_cast<std::uint32_t>(tag >> 32) & 0xffffU;
  }

 private:
  [[nodiscard]] std::uint64_t tag(std::uint64_t kind, std::uint64_t source, std::uint32_t name) const {
    return kind << 62 | generation_ | (source & 0xffffU) << 32 | name;
  }

  std::uint64_t generation_;
};

/// A worker's pending messages. Reports their failures to Peers. One thread at a time.
class Messages {
 public:
  /// `peers` outlives this object.
  explicit Messages(Peers& peers) : peers_(peers) {}
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  /// No message may be pending: call release_all() before.
  ~Messages() = default;

  [[nodiscard]] Request send(ucp_ep_h endpoint, std::uint32_t peer, std::uint64_t tag, const void* data,
                             std::size_t bytes);
  /// Receives a message whose tag equals `tag` in the bits of `mask`. A failure is attributed to `peer`.
  [[nodiscard]] Request receive(ucp_worker_h worker, std::uint32_t peer, std::uint64_t tag, std::uint64_t mask,
                                void* data, std::size_t bytes);
  [[nodiscard]] RequestState test(Request request);
  /// Returns the sender of the message whose receive test() last found done.
  [[nodiscard]] std::uint32_t last_source() const { return last_source_; }

  static void cancel(ucp_worker_h worker, Request request);
  /// Cancels all receives except `but`; they no longer write to their memory.
  void cancel_receives(ucp_worker_h worker, Request but);
  /// Releases pending messages, before the worker is destroyed.
  void release_all();

 private:
  struct Message {
    void* ucp_request;  ///< null if it could not be posted
    std::uint32_t peer;
    std::size_t bytes;
    bool receives;
    std::size_t index;  ///< of this message in live_
  };

  [[nodiscard]] Request keep(ucs_status_ptr_t ucp_request, std::uint32_t peer, std::size_t bytes, bool receives);
  void release(Message* message);

  Peers& peers_;
  std::vector<std::unique_ptr<Message>> live_;
  std::uint32_t last_source_ = 0;
};

}  // namespace rollcall::process_group::ucx
