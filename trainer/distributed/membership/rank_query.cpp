#include "trainer/distributed/membership/rank_query.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <thread>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"

namespace rollcall::process_group {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kRanksNamed = 8;
/// Names of RankStatus::Presence.
constexpr std::array<std::string_view, 6> kPresences{"silent", "stopped", "here", "left", "ended", "gave up"};

std::string describe(const RankStatus& rank, const std::string& where) {
  const RankProgress& progress = rank.progress;
  switch (rank.presence) {
    case RankStatus::Silent:
      return "does not respond: it is stopped or lost";
    case RankStatus::Stopped:
      return "does not respond, but its process is alive: it is stopped or gets no CPU time";
    case RankStatus::Ended:
      return lost_text(rank.host, where);
    case RankStatus::Left:
      return "has left the group" + (progress.issued == 0 ? "" : ", its last collective was " + progress.last);
    case RankStatus::GaveUp:
      return "gave up: " + rank.reason;
    case RankStatus::Here:
      break;
  }
  if (progress.issued == 0) {
    return "has not arrived: it has not begun a collective yet";
  }
  const bool inside = progress.ended < progress.issued;
  return "has not arrived: it is " + std::string(inside ? "still in " : "busy elsewhere, its last collective was ") +
         progress.last;
}

/// Describes the ranks for which `named` returns true.
std::string list(const std::vector<RankStatus>& ranks, const RankNames& names, const std::string& where,
                 const std::function<bool(const RankStatus&)>& named) {
  std::string text;
  std::size_t count = 0;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (!named(ranks[rank])) {
      continue;
    }
    count += 1;
    if (count <= kRanksNamed) {
      text += (count > 1 ? "; " : "") + names.of(rank) + " " + describe(ranks[rank], where);
    }
  }
  return count > kRanksNamed ? text + "; and " + std::to_string(count - kRanksNamed) + " more" : text;
}

bool has_begun(std::uint64_t number, const RankStatus& rank) { return rank.progress.issued >= number; }

constexpr const char* kAsked = "rank query";
constexpr milliseconds kLookAgain{5};

std::string status_key(std::uint32_t rank) { return "status of " + std::to_string(rank); }

std::string host_key(std::uint32_t rank) { return "host of " + std::to_string(rank); }

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

/// A single silent rank is probably lost. A busy machine gets more time.
QueryTimeouts query_timeouts(milliseconds interval) {
  return {.one_silent = interval + milliseconds(150), .several_silent = 10 * interval + milliseconds(1000)};
}

milliseconds time_to_wait(const std::vector<RankStatus>& ranks, const QueryTimeouts& timeouts) {
  const auto awaited = std::ranges::count_if(ranks, is_awaited);
  if (awaited == 0) {
    return milliseconds(0);
  }
  const bool alive = std::ranges::find(ranks, RankStatus::Stopped, &RankStatus::presence) != ranks.end();
  return awaited == 1 && !alive ? timeouts.one_silent : timeouts.several_silent;
}

std::string serialise(const RankStatus& status) {
  const RankProgress& where = status.progress;
  return std::string(kPresences[status.presence]) + "\n" + std::to_string(where.issued) + "\n" +
         std::to_string(where.ended) + "\n" + where.last + "\n" + status.reason + "\n" + status.host;
}

std::optional<RankStatus> parse_rank_status(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  if (lines.size() != 6) {
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
                    .reason = lines[4],
                    .host = lines[5]};
}

std::string lost_text(const std::string& host, const std::string& where) {
  return (host.empty() ? "" : "on " + host + " ") + "was lost" + (where.empty() ? "" : " " + where) +
         " (its process ended)";
}

std::string who_is_missing(std::uint64_t number, const std::vector<RankStatus>& ranks, const RankNames& names,
                           const std::string& where) {
  const std::string text = list(ranks, names, where, [number](const RankStatus& rank) {
    return !has_begun(number, rank) || rank.presence == RankStatus::GaveUp;
  });
  return text.empty() ? std::string(kAllRanksHaveArrived) : text;
}

std::string who_is_gone(std::uint64_t number, const std::vector<RankStatus>& ranks, const RankNames& names,
                        const std::string& where) {
  return list(ranks, names, where, [number](const RankStatus& rank) {
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

void RankQuery::publish_host(const std::string& host) const { store_->set(host_key(rank_), host); }

std::string RankQuery::host_of(std::uint32_t rank) const {
  return store_->check({host_key(rank)}) ? store_->get_to_str(host_key(rank)) : "";
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
  if (!processes_->is_alive(names_.number(rank))) {
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
    const bool ended = processes_->has_ended(names_.number(rank));  // first: its last report is in the store then
    if (const std::optional<RankStatus> status = status_of(rank)) {
      one = *status;
    } else if (ended) {
      one.presence = RankStatus::Ended;
      one.host = host_of(rank);
      write(rank, one);  // for the ranks of other hosts
    } else if (one.presence == RankStatus::Silent && is_alive(rank)) {
      one.presence = RankStatus::Stopped;
    }
  }
}

std::string RankQuery::ask(std::uint64_t number, const RankProgress& own, bool any_lost, const QueryTimeouts& timeouts,
                           const std::string& where) const {
  const auto began = steady_clock::now();
  std::vector<RankStatus> ranks(world_size_);
  answer(own);
  store_->set(kAsked, std::string("1"));
  for (;;) {
    complete(ranks);
    if (std::string gone = any_lost ? who_is_gone(number, ranks, names_, where) : ""; !gone.empty()) {
      return gone;
    }
    if (steady_clock::now() - began >= time_to_wait(ranks, timeouts)) {
      return who_is_missing(number, ranks, names_, where);
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace rollcall::process_group
