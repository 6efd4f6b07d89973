#include "trainer/distributed/backends/ucx/engine/peers.h"

#include <utility>

namespace rollcall::process_group::ucx {

void Peers::fail_with(Failure failure) {
  if (!failure_) {
    failure_ = std::move(failure);
  }
}

void Peers::fail_with_difference(std::uint32_t peer, const std::string& what) {
  fail_with(Failure{
      peer, names_.of(peer) + " " + what + ": the ranks do not call the same operations with the same sizes", true});
}

void Peers::fail_message(std::uint32_t peer, const std::string& reason) {
  if (has_left(peer)) {
    fail_with(Failure{peer, names_.of(peer) + " has left the group"});
  }
  suspect(peer, reason);
}

void Peers::lose(std::uint32_t peer, const std::string& reason) {
  if (!has_left(peer)) {
    fail_with(Failure{peer, names_.of(peer) + " is gone: " + reason});
  }
}

void Peers::suspect(std::uint32_t peer, const std::string& reason) {
  Peer& suspected = peers_.at(peer);
  if (!suspected.left && suspected.suspicion.empty()) {
    suspected.suspicion = reason;
    suspected.suspected = std::chrono::steady_clock::now();
    suspects_ += 1;
  }
}

void Peers::judge_suspects() {
  // Over TCP its last message may come by another connection than the one that broke.
  constexpr std::chrono::milliseconds kGrace{10};
  for (std::uint32_t rank = 0; rank < peers_.size() && suspects_ > 0; ++rank) {
    Peer& peer = peers_[rank];
    if (!peer.suspicion.empty() && std::chrono::steady_clock::now() - peer.suspected > kGrace) {
      lose(rank, peer.suspicion);
      peer.suspicion.clear();
      suspects_ -= 1;
    }
  }
}

bool Peers::is_reachable(std::uint32_t peer) const {
  const Peer& asked = peers_.at(peer);
  return !asked.left && !asked.ended && asked.suspicion.empty() &&
         !(failure_ && failure_->rank == peer && !failure_->answers);
}

}  // namespace rollcall::process_group::ucx
