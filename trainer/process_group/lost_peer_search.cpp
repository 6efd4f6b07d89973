#include "trainer/process_group/lost_peer_search.h"

#include <algorithm>

#include "trainer/process_group/within.h"

namespace rollcall::process_group {
namespace {

using std::chrono::seconds;

/// What came from a peer before its connection closed has been read by then.
constexpr seconds kPatience{1};
/// A look sends each peer some bytes.
constexpr seconds kRarestLook{30};

std::string left_key(std::uint32_t rank) { return "left/" + std::to_string(rank); }

}  // namespace

void LostPeerSearch::add(const std::shared_ptr<Outcome>& outcome) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [](const std::weak_ptr<Outcome>& weak) {
    const std::shared_ptr<Outcome> other = weak.lock();
    return !other || other->is_settled();
  });
  waiting_.push_back(outcome);
}

std::vector<std::shared_ptr<Outcome>> LostPeerSearch::overdue() {
  const auto latest = Outcome::Clock::now() - kPatience;
  std::vector<std::shared_ptr<Outcome>> overdue;
  const std::lock_guard lock(mutex_);
  for (const std::weak_ptr<Outcome>& weak : waiting_) {
    if (std::shared_ptr<Outcome> outcome = weak.lock();
        outcome && !outcome->is_settled() && outcome->since() < latest) {
      overdue.push_back(std::move(outcome));
    }
  }
  return overdue;
}

void LostPeerSearch::forget_connections() {
  const std::lock_guard lock(connections_);
  broken_peers_ = nullptr;
}

std::vector<std::uint32_t> LostPeerSearch::broken_peers() {
  const std::lock_guard lock(connections_);
  return broken_peers_ ? broken_peers_() : std::vector<std::uint32_t>();
}

std::optional<std::uint32_t> LostPeerSearch::find(const c10::intrusive_ptr<c10d::Store>& store) {
  for (const std::uint32_t peer : broken_peers()) {
    const std::optional<bool> left = within<bool>(seconds(2), [store, peer] { return store->check({left_key(peer)}); });
    if (!left.value_or(false)) {
      return peer;
    }
  }
  return std::nullopt;
}

void LostPeerSearch::look(const c10::intrusive_ptr<c10d::Store>& store) {
  const std::vector<std::shared_ptr<Outcome>> waiting = overdue();
  if (waiting.empty()) {
    next_age_ = kPatience;
    return;
  }
  if (!lost_ && Outcome::Clock::now() - waiting.front()->since() >= next_age_) {
    next_age_ = std::min(2 * next_age_, kRarestLook);
    lost_ = find(store);
  }
  if (lost_) {
    for (const std::shared_ptr<Outcome>& outcome : waiting) {
      outcome->fail("the connection to rank " + std::to_string(*lost_) + " is closed");
    }
  }
}

void LostPeerSearch::tell_that_it_leaves(c10d::Store& store, std::uint32_t rank) {
  store.set(left_key(rank), std::vector<std::uint8_t>{1});
}

}  // namespace rollcall::process_group
