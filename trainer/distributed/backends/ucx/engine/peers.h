#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/distributed/processes/rank_names.h"

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

}  // namespace rollcall::process_group::ucx
