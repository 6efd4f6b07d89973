#include "trainer/process_group/roll_call.h"

#include "runtime/base/text.h"

namespace rollcall::process_group {
namespace {

constexpr std::size_t kRanksNamed = 8;

std::string describe(std::uint64_t rank, const std::optional<Whereabouts>& answer) {
  const std::string name = "rank " + std::to_string(rank);
  if (!answer) {
    return name + " does not answer: it is stopped or lost";
  }
  if (answer->issued == 0) {
    return name + " has not arrived: it has not begun a collective yet";
  }
  const bool inside = answer->ended < answer->issued;
  return name + " has not arrived: it is " + (inside ? "still in " : "busy elsewhere, its last collective was ") +
         answer->last;
}

}  // namespace

std::string serialise(const Whereabouts& whereabouts) {
  return std::to_string(whereabouts.issued) + "\n" + std::to_string(whereabouts.ended) + "\n" + whereabouts.last;
}

std::optional<Whereabouts> parse_whereabouts(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  if (lines.size() != 3) {
    return std::nullopt;
  }
  const auto issued = parse_integer<std::uint64_t>(lines[0]);
  const auto ended = parse_integer<std::uint64_t>(lines[1]);
  if (!issued || !ended) {
    return std::nullopt;
  }
  return Whereabouts{.issued = *issued, .ended = *ended, .last = lines[2]};
}

std::string who_is_missing(std::uint64_t number, const std::vector<std::optional<Whereabouts>>& answers) {
  std::string text;
  std::size_t missing = 0;
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (answers[rank] && answers[rank]->issued >= number) {
      continue;
    }
    missing += 1;
    if (missing <= kRanksNamed) {
      text += (missing > 1 ? "; " : "") + describe(rank, answers[rank]);
    }
  }
  if (missing > kRanksNamed) {
    text += "; and " + std::to_string(missing - kRanksNamed) + " more";
  }
  return text.empty() ? "all ranks have arrived" : text;
}

}  // namespace rollcall::process_group
