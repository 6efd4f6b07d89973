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
  std::uint32_t rank = 0;  ///< at which it went wrong, as far as this rank knows
  std::string reason;      ///< "rank 2 is gone: Connection reset by remote peer"
  bool answers = false;    ///< that rank is alive and can be told
};

/// What a rank knows of the others of its group, whoever found it out: who has left in good order, who seems to be gone
/// and who is; and the failure that ends the group. Knows nothing of UCX. One thread at a time.
class Peers {
 public:
  Peers(std::uint32_t world_size, const RankNames& names) : names_(names), peers_(world_size) {}

  [[nodiscard]] const RankNames& names() const { return names_; }
  [[nodiscard]] const std::optional<Failure>& failure() const { return failure_; }
  /// The first failure stays.
  void fail_with(Failure failure);
  /// `peer` calls another operation than this rank, which shows in `what` it did.
  void fail_with_difference(std::uint32_t peer, const std::string& what);
  /// A message to or from `peer` failed.
  void fail_message(std::uint32_t peer, const std::string& reason);

  /// Says that it leaves in good order.
  void leaves(std::uint32_t peer) { peers_.at(peer).left = true; }
  [[nodiscard]] bool has_left(std::uint32_t peer) const { return peers_.at(peer).left; }
  /// Knows that this rank leaves.
  void knows(std::uint32_t peer) { peers_.at(peer).knows = true; }
  [[nodiscard]] bool has_heard(std::uint32_t peer) const { return peers_.at(peer).knows; }
  /// Its process has ended. That is a failure once lose() says so: its last message may lie there unread.
  void ended(std::uint32_t peer) { peers_.at(peer).ended = true; }
  /// It is gone: a failure, unless it has left.
  void lose(std::uint32_t peer, const std::string& reason);

  /// Its endpoint broke: it is gone, unless it turns out within milliseconds that it left or failed in good order.
  void suspect(std::uint32_t peer, const std::string& reason);
  [[nodiscard]] bool is_suspect(std::uint32_t peer) const { return !peers_.at(peer).suspicion.empty(); }
  [[nodiscard]] bool has_suspects() const { return suspects_ > 0; }
  /// Loses those whose time is over. To be called soon while there are any.
  void judge_suspects();

  /// Whether `peer` may still read what it is told.
  [[nodiscard]] bool is_reachable(std::uint32_t peer) const;

 private:
  struct Peer {
    bool left = false;
    bool knows = false;
    bool ended = false;
    std::string suspicion;  ///< why it seems to be gone; empty: it does not
    std::chrono::steady_clock::time_point suspected;
  };

  RankNames names_;
  std::vector<Peer> peers_;
  std::size_t suspects_ = 0;
  std::optional<Failure> failure_;
};

/// UCP's 64-bit tags: kind (2 bits), generation of the group (14), source rank (16), name (32). The generation keeps a
/// late message of a group that was given up out of its successor.
class Tags {
 public:
  static constexpr std::uint64_t kWhole = ~std::uint64_t{0};
  static constexpr std::uint64_t kFromAnybody = ~(std::uint64_t{0xffff} << 32);

  explicit Tags(std::uint32_t generation) : generation_(std::uint64_t{generation & 0x3fffU} << 48) {}

  /// Numbers wrap around at 2^16: only messages that may be under way together need different names.
  [[nodiscard]] std::uint64_t collective(std::uint32_t source, MessageName name) const {
    return tag(0, source, (name.operation & 0xffffU) << 16 | (name.message & 0xffffU));
  }
  [[nodiscard]] std::uint64_t point_to_point(std::uint32_t source, std::uint32_t user_tag) const {
    return tag(1, source, user_tag);
  }
  [[nodiscard]] std::uint64_t notice(std::uint32_t source) const { return tag(2, source, 0); }

  [[nodiscard]] static std::uint32_t source_of(std::uint64_t tag) {
    return static_cast<std::uint32_t>(tag >> 32) & 0xffffU;
  }

 private:
  [[nodiscard]] std::uint64_t tag(std::uint64_t kind, std::uint64_t source, std::uint32_t name) const {
    return kind << 62 | generation_ | (source & 0xffffU) << 32 | name;
  }

  std::uint64_t generation_;
};

/// A worker's messages under way, from the post to the end. What goes wrong with one is told to the Peers. One thread
/// at a time.
class Messages {
 public:
  /// `peers` outlives it.
  explicit Messages(Peers& peers) : peers_(peers) {}
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  /// Nothing is under way any more: see release_all().
  ~Messages() = default;

  [[nodiscard]] Request send(ucp_ep_h endpoint, std::uint32_t peer, std::uint64_t tag, const void* data,
                             std::size_t bytes);
  /// From whoever has a tag of which `mask` agrees; `peer` is at fault where it fails.
  [[nodiscard]] Request receive(ucp_worker_h worker, std::uint32_t peer, std::uint64_t tag, std::uint64_t mask,
                                void* data, std::size_t bytes);
  [[nodiscard]] RequestState test(Request request);
  /// Of the receive that test() called done last.
  [[nodiscard]] std::uint32_t last_source() const { return last_source_; }

  static void cancel(ucp_worker_h worker, Request request);
  /// All receives but that one: what was posted leaves its memory alone from now on.
  void cancel_receives(ucp_worker_h worker, Request but);
  /// Forgets what is still under way, before its worker is destroyed.
  void release_all();

 private:
  /// `place` is its index in live_.
  struct Message {
    void* ucp_request;  ///< null: it could not be posted
    std::uint32_t peer;
    std::size_t bytes;
    bool receives;
    std::size_t place;
  };

  [[nodiscard]] Request keep(ucs_status_ptr_t ucp_request, std::uint32_t peer, std::size_t bytes, bool receives);
  void release(Message* message);

  Peers& peers_;
  std::vector<std::unique_ptr<Message>> live_;
  std::uint32_t last_source_ = 0;
};

}  // namespace rollcall::process_group::ucx
