#include "trainer/distributed/process_group/attendance.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include "runtime/base/text.h"

namespace rollcall::process_group {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kRanksNamed = 8;
/// By Attendance::Presence.
constexpr std::array<std::string_view, 6> kPresences{"silent", "stopped", "here", "left", "ended", "gave up"};

std::string describe(const Attendance& rank) {
  const Whereabouts& where = rank.whereabouts;
  switch (rank.presence) {
    case Attendance::Silent:
      return "does not answer: it is stopped or lost";
    case Attendance::Stopped:
      return "does not answer, but its process lives: it is stopped or gets no processor";
    case Attendance::Ended:
      return "is lost: its process ended";
    case Attendance::Left:
      return "has left the group" + (where.issued == 0 ? "" : ", its last collective was " + where.last);
    case Attendance::GaveUp:
      return "gave up: " + rank.reason;
    case Attendance::Here:
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
std::string list(const std::vector<Attendance>& ranks, const RankNames& names,
                 const std::function<bool(const Attendance&)>& named) {
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

bool has_begun(std::uint64_t number, const Attendance& rank) { return rank.whereabouts.issued >= number; }

}  // namespace

bool is_awaited(const Attendance& rank) {
  return rank.presence == Attendance::Silent || rank.presence == Attendance::Stopped;
}

/// One rank may be lost, so all others are enough after a moment; a busy machine gets longer.
Allowance allowance_of(milliseconds interval) {
  return {.for_one = interval + milliseconds(150), .for_many = 10 * interval + milliseconds(1000)};
}

milliseconds patience(const std::vector<Attendance>& ranks, const Allowance& allowance) {
  const auto awaited = std::ranges::count_if(ranks, is_awaited);
  if (awaited == 0) {
    return milliseconds(0);
  }
  const bool alive = std::ranges::find(ranks, Attendance::Stopped, &Attendance::presence) != ranks.end();
  return awaited == 1 && !alive ? allowance.for_one : allowance.for_many;
}

std::string serialise(const Attendance& attendance) {
  const Whereabouts& where = attendance.whereabouts;
  return std::string(kPresences[attendance.presence]) + "\n" + std::to_string(where.issued) + "\n" +
         std::to_string(where.ended) + "\n" + where.last + "\n" + attendance.reason;
}

std::optional<Attendance> parse_attendance(const std::string& text) {
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
  return Attendance{.presence = static_cast<Attendance::Presence>(presence - kPresences.begin()),
                    .whereabouts = {.issued = *issued, .ended = *ended, .last = lines[3]},
                    .reason = lines[4]};
}

std::string who_is_missing(std::uint64_t number, const std::vector<Attendance>& ranks, const RankNames& names) {
  const std::string text = list(ranks, names, [number](const Attendance& rank) {
    return !has_begun(number, rank) || rank.presence == Attendance::GaveUp;
  });
  return text.empty() ? "all ranks have arrived" : text;
}

std::string who_is_gone(std::uint64_t number, const std::vector<Attendance>& ranks, const RankNames& names) {
  return list(ranks, names, [number](const Attendance& rank) {
    return rank.presence == Attendance::Ended || rank.presence == Attendance::GaveUp ||
           (rank.presence == Attendance::Left && !has_begun(number, rank));
  });
}

}  // namespace rollcall::process_group
