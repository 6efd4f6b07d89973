#include "trainer/distributed/membership/rank_query.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <thread>

#include "runtime/base/text.h"

namespace rollcall::process_group {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kRanksNamed = 8;
/// By RankStatus::Presence.
constexpr std::array<std::string_view, 6> kPresences{"silent", "stopped", "here", "left", "ended", "gave up"};

std::string describe(const RankStatus& rank) {
  const RankProgress& where = rank.progress;
  switch (rank.presence) {
    case RankStatus::Silent:
      return "does not answer: it is stopped or lost";
    case RankStatus::Stopped:
      return "does not answer, but its process lives: it is stopped or gets no processor";
    case RankStatus::Ended:
      return "is lost: its process ended";
    case RankStatus::Left:
      return "has left the group" + (where.issued == 0 ? "" : ", its last collective was " + where.last);
    case RankStatus::GaveUp:
      return "gave up: " + rank.reason;
    case RankStatus::Here:
      break;
  }
  if (where.issued == 0) {
    return "has not arrived: it has not begun a collective yet";
  }
  const bool inside = where.ended < where.issued;
  return "has not arrived: it is " + std::string(inside ? "still in " : "busy elsewhere, its last collective was ") +
         where.last;
}

/// Of those whom `named` chooses.
std::string list(const std::vector<RankStatus>& ranks, const RankNames& names,
                 const std::function<bool(const RankStatus&)>& named) {
  std::string text;
  std::size_t count = 0;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (!named(ranks[rank])) {
      continue;
    }
    count += 1;
    if (count <= kRanksNamed) {
      text += (count > 1 ? "; " : "") + names.of(rank) + " " + describe(ranks[rank]);
    }
  }
  return count > kRanksNamed ? text + "; and " + std::to_string(count - kRanksNamed) + " more" : text;
}

bool has_begun(std::uint64_t number, const RankStatus& rank) { return rank.progress.issued >= number; }

constexpr const char* kAsked = "rank query";
constexpr milliseconds kLookAgain{5};

std::string status_key(std::uint32_t rank) { return "status of " + std::to_string(rank); }

std::string alive_key(std::uint32_t rank) { return "alive " + std::to_string(rank); }

std::string count_key() { return "processes of " + process_space(); }
std::string entry_key(std::int64_t number) { return count_key() + "/" + std::to_string(number); }

struct Entry {
  std::uint32_t rank = 0;
  std::string identity;
};

std::string serialise(const Entry& entry) { return std::to_string(entry.rank) + "\n" + entry.identity; }

std::optional<Entry> parse_entry(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  const auto rank = parse_integer<std::uint32_t>(lines.empty() ? "" : lines[0]);
  return rank && lines.size() == 2 ? std::optional(Entry{*rank, lines[1]}) : std::nullopt;
}

}  // namespace

bool is_awaited(const RankStatus& rank) {
  return rank.presence == RankStatus::Silent || rank.presence == RankStatus::Stopped;
}

/// One rank may be lost, so all others are enough after a moment; a busy machine gets longer.
Allowance allowance_of(milliseconds interval) {
  return {.for_one = interval + milliseconds(150), .for_many = 10 * interval + milliseconds(1000)};
}

milliseconds patience(const std::vector<RankStatus>& ranks, const Allowance& allowance) {
  const auto awaited = std::ranges::count_if(ranks, is_awaited);
  if (awaited == 0) {
    return milliseconds(0);
  }
  const bool alive = std::ranges::find(ranks, RankStatus::Stopped, &RankStatus::presence) != ranks.end();
  return awaited == 1 && !alive ? allowance.for_one : allowance.for_many;
}

std::string serialise(const RankStatus& status) {
  const RankProgress& where = status.progress;
  return std::string(kPresences[status.presence]) + "\n" + std::to_string(where.issued) + "\n" +
         std::to_string(where.ended) + "\n" + where.last + "\n" + status.reason;
}

std::optional<RankStatus> parse_rank_status(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  if (lines.size() != 5) {
    return std::nullopt;
  }
  const auto* const presence = std::ranges::find(kPresences, lines[0]);
  const auto issued = parse_integer<std::uint64_t>(lines[1]);
  const auto ended = parse_integer<std::uint64_t>(lines[2]);
  if (presence == kPresences.end() || !issued || !ended) {
    return std::nullopt;
  }
  return RankStatus{.presence = static_cast<RankStatus::Presence>(presence - kPresences.begin()),
                    .progress = {.issued = *issued, .ended = *ended, .last = lines[3]},
                    .reason = lines[4]};
}

std::string who_is_missing(std::uint64_t number, const std::vector<RankStatus>& ranks, const RankNames& names) {
  const std::string text = list(ranks, names, [number](const RankStatus& rank) {
    return !has_begun(number, rank) || rank.presence == RankStatus::GaveUp;
  });
  return text.empty() ? "all ranks have arrived" : text;
}

std::string who_is_gone(std::uint64_t number, const std::vector<RankStatus>& ranks, const RankNames& names) {
  return list(ranks, names, [number](const RankStatus& rank) {
    return rank.presence == RankStatus::Ended || rank.presence == RankStatus::GaveUp ||
           (rank.presence == RankStatus::Left && !has_begun(number, rank));
  });
}

void publish_process(c10d::Store& store, std::uint32_t rank) {
  if (const std::string identity = process_identity(); !identity.empty()) {
    store.set(entry_key(store.add(count_key(), 1)), serialise(Entry{rank, identity}));
  }
}

void watch_host_peers(c10d::Store& store, std::uint32_t own_rank, ProcessWatch& processes) {
  const std::int64_t entries = process_space().empty() ? 0 : store.add(count_key(), 0);
  for (std::int64_t number = 1; number <= entries; ++number) {
    const std::optional<Entry> entry = parse_entry(store.get_to_str(entry_key(number)));
    if (entry && entry->rank != own_rank) {
      processes.add(entry->rank, entry->identity);
    }
  }
}

void RankQuery::write(std::uint32_t rank, const RankStatus& status) const {
  store_->set(status_key(rank), serialise(status));
}

std::optional<RankStatus> RankQuery::status_of(std::uint32_t rank) const {
  return store_->check({status_key(rank)}) ? parse_rank_status(store_->get_to_str(status_key(rank))) : std::nullopt;
}

bool RankQuery::is_asked() const { return store_->check({kAsked}); }

void RankQuery::answer(const RankProgress& progress) const {
  write(rank_, RankStatus{.presence = RankStatus::Here, .progress = progress});
}

void RankQuery::write_last(const RankStatus& status) const {
  write(rank_, status);
  (void)store_->check({status_key(rank_)});  // set() alone may return before the store has it, and the process may end
}

void RankQuery::leave(const RankProgress& progress) const {
  write_last({.presence = RankStatus::Left, .progress = progress});
}

void RankQuery::give_up(const RankProgress& progress, const std::string& reason) const {
  write_last({.presence = RankStatus::GaveUp, .progress = progress, .reason = reason});
}

bool RankQuery::has_left(std::uint32_t rank) const {
  const std::optional<RankStatus> status = status_of(rank);
  return status && status->presence == RankStatus::Left;
}

bool RankQuery::is_alive(std::uint32_t rank) const {
  if (!processes_->lives(names_.number(rank))) {
    return store_->check({alive_key(rank)});
  }
  store_->set(alive_key(rank), std::string("1"));
  return true;
}

void RankQuery::complete(std::vector<RankStatus>& ranks) const {
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    RankStatus& one = ranks[rank];
    if (!is_awaited(one)) {
      continue;
    }
    const bool ended = processes_->has_ended(names_.number(rank));  // first: what it said before is in the store then
    if (const std::optional<RankStatus> status = status_of(rank)) {
      one = *status;
    } else if (ended) {
      one.presence = RankStatus::Ended;
      write(rank, one);  // for those of other hosts
    } else if (one.presence == RankStatus::Silent && is_alive(rank)) {
      one.presence = RankStatus::Stopped;
    }
  }
}

std::string RankQuery::ask(std::uint64_t number, const RankProgress& own, bool anybody_gone,
                           const Allowance& allowance) const {
  const auto began = steady_clock::now();
  std::vector<RankStatus> ranks(world_size_);
  answer(own);
  store_->set(kAsked, std::string("1"));
  for (;;) {
    complete(ranks);
    if (std::string gone = anybody_gone ? who_is_gone(number, ranks, names_) : ""; !gone.empty()) {
      return gone;
    }
    if (steady_clock::now() - began >= patience(ranks, allowance)) {
      return who_is_missing(number, ranks, names_);
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace rollcall::process_group
