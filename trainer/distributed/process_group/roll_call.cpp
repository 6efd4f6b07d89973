#include "trainer/distributed/process_group/roll_call.h"

#include <algorithm>
#include <thread>

namespace rollcall::process_group {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kCalled = "roll call";
constexpr milliseconds kLookAgain{5};

std::string word_key(std::uint32_t rank) { return "word of " + std::to_string(rank); }

std::string alive_key(std::uint32_t rank) { return "alive " + std::to_string(rank); }

}  // namespace

void RollCall::say(std::uint32_t rank, const Attendance& attendance) const {
  store_->set(word_key(rank), serialise(attendance));
}

std::optional<Attendance> RollCall::word_of(std::uint32_t rank) const {
  return store_->check({word_key(rank)}) ? parse_attendance(store_->get_to_str(word_key(rank))) : std::nullopt;
}

bool RollCall::is_called() const { return store_->check({kCalled}); }

void RollCall::answer(const Whereabouts& whereabouts) const {
  say(rank_, Attendance{.presence = Attendance::Here, .whereabouts = whereabouts});
}

void RollCall::say_last(const Attendance& attendance) const {
  say(rank_, attendance);
  (void)store_->check({word_key(rank_)});  // set() alone may return before the store has it, and the process may end
}

void RollCall::leave(const Whereabouts& whereabouts) const {
  say_last({.presence = Attendance::Left, .whereabouts = whereabouts});
}

void RollCall::give_up(const Whereabouts& whereabouts, const std::string& reason) const {
  say_last({.presence = Attendance::GaveUp, .whereabouts = whereabouts, .reason = reason});
}

bool RollCall::has_left(std::uint32_t rank) const {
  const std::optional<Attendance> word = word_of(rank);
  return word && word->presence == Attendance::Left;
}

bool RollCall::is_alive(std::uint32_t rank) const {
  if (!host_peers_->lives(rank)) {
    return store_->check({alive_key(rank)});
  }
  store_->set(alive_key(rank), std::string("1"));
  return true;
}

void RollCall::complete(std::vector<Attendance>& ranks) const {
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    Attendance& one = ranks[rank];
    if (!is_awaited(one)) {
      continue;
    }
    const bool ended = host_peers_->has_ended(rank);  // first: what it said before is in the store then
    if (const std::optional<Attendance> word = word_of(rank)) {
      one = *word;
    } else if (ended) {
      one.presence = Attendance::Ended;
      say(rank, one);  // for those of other hosts
    } else if (one.presence == Attendance::Silent && is_alive(rank)) {
      one.presence = Attendance::Stopped;
    }
  }
}

std::string RollCall::ask(std::uint64_t number, const Whereabouts& own, bool anybody_gone,
                          const Allowance& allowance) const {
  const auto began = steady_clock::now();
  std::vector<Attendance> ranks(world_size_);
  answer(own);
  store_->set(kCalled, std::string("1"));
  for (;;) {
    complete(ranks);
    if (const std::string gone = anybody_gone ? who_is_gone(number, ranks, names_) : ""; !gone.empty()) {
      return gone;
    }
    if (steady_clock::now() - began >= patience(ranks, allowance)) {
      return who_is_missing(number, ranks, names_);
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace rollcall::process_group
