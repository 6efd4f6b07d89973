#include "trainer/distributed/watchdog/lost_peer_search.h"

#include <algorithm>

namespace rollcall::process_group {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// What came from a peer before its connection closed has been read by then.
constexpr seconds kPatience{1};
/// A look sends each peer some bytes.
constexpr seconds kRarestLook{30};

}  // namespace

void LostPeerSearch::add(const std::shared_ptr<WatchedCollective>& collective) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [](const std::weak_ptr<WatchedCollective>& weak) {
    const std::shared_ptr<WatchedCollective> other = weak.lock();
    return !other || other->has_ended();
  });
  waiting_.push_back(collective);
}

std::vector<std::shared_ptr<WatchedCollective>> LostPeerSearch::waiting_for(milliseconds age,
                                                                            WatchedCollective::Clock::time_point now) {
  const auto latest = now - age;
  std::vector<std::shared_ptr<WatchedCollective>> old;
  const std::lock_guard lock(mutex_);
  for (const std::weak_ptr<WatchedCollective>& weak : waiting_) {
    if (std::shared_ptr<WatchedCollective> collective = weak.lock();
        collective && !collective->has_ended() && collective->since() <= latest) {
      old.push_back(std::move(collective));
    }
  }
  return old;
}

void LostPeerSearch::forget_connections() {
  const std::lock_guard lock(connections_);
  broken_peers_ = nullptr;
}

std::vector<std::uint32_t> LostPeerSearch::broken_peers() {
  const std::lock_guard lock(connections_);
  return broken_peers_ ? broken_peers_() : std::vector<std::uint32_t>();
}

void LostPeerSearch::process_ended(std::uint32_t peer, const HasLeft& has_left,
                                   WatchedCollective::Clock::time_point now) {
  const std::optional<bool> left = has_left(peer);
  if ((!lost_ || lost_->told) && !left.value_or(false)) {
    // Where the store has gone too, this may be the end of a run, with a last collective about to end well.
    lost_ = Lost{.what = "the process of " + names_.of(peer) + " ended",
                 .since = now,
                 .patience = left ? kAfterAnEnd : kPatience};
  }
}

void LostPeerSearch::ranks_are_lost(WatchedCollective::Clock::time_point now) {
  if (!lost_) {  // who is known to be lost is waited for less
    lost_ = Lost{.what = "the agent has said that ranks are lost", .since = now, .patience = kPatience, .told = true};
  }
}

void LostPeerSearch::search_connections(const HasLeft& has_left, WatchedCollective::Clock::time_point now) {
  const std::vector<std::shared_ptr<WatchedCollective>> waiting = waiting_for(kPatience, now);
  if (waiting.empty()) {
    pause_ = kPatience;
    next_look_ = {};
    return;
  }
  if (now < next_look_) {
    return;
  }
  next_look_ = now + pause_;
  pause_ = std::min(2 * pause_, kRarestLook);
  for (const std::uint32_t peer : broken_peers()) {
    if (!has_left(peer).value_or(false)) {
      lost_ = Lost{.what = "the connection to " + names_.of(peer) + " is closed",
                   .since = waiting.front()->since(),
                   .patience = kPatience};
      return;
    }
  }
}

void LostPeerSearch::look(const HasLeft& has_left, WatchedCollective::Clock::time_point now) {
  if (!lost_) {
    search_connections(has_left, now);
  }
  if (!lost_ || now - lost_->since < lost_->patience) {
    return;
  }
  for (const std::shared_ptr<WatchedCollective>& collective : waiting_for(lost_->patience, now)) {
    collective->fail(lost_->what, lost_->told);
  }
}

}  // namespace rollcall::process_group
