#include "trainer/tools/checkpoint/prune_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "trainer/checkpoint/format/file_name.h"
#include "trainer/checkpoint/format/retention.h"

namespace rollcall::checkpoint_tool {
namespace {

namespace format = checkpoint::format;
using format::FileState;

std::string name_of(const SeenFile& file) { return std::filesystem::path(file.path).filename().string(); }

bool contains(const std::vector<std::int64_t>& steps, std::int64_t step) {
  return std::ranges::find(steps, step) != steps.end();
}

/// Of the usable checkpoints, ascending.
std::vector<std::int64_t> usable_steps(const std::vector<SeenFile>& files) {
  std::vector<std::int64_t> steps;
  for (const SeenFile& file : files) {
    if (is_usable_checkpoint(file)) {
      steps.push_back(*file.step);
    }
  }
  std::ranges::sort(steps);
  return steps;
}

/// Those of `steps` whose validations were the `count` best, and that of best.h5. A training's newest checkpoint tells
/// of as many as its own --keep-best kept; older ones may tell of more.
std::vector<std::int64_t> best_steps(const std::vector<SeenFile>& files, const std::vector<std::int64_t>& steps,
                                     std::size_t count) {
  std::map<std::int64_t, double> metrics;
  std::vector<std::int64_t> best_of_link;
  for (const SeenFile& file : files) {
    if (!is_usable_checkpoint(file)) {
      continue;
    }
    for (const format::Best& validation : file.best) {
      metrics.emplace(validation.step, validation.metric);
    }
    if (file.is_best && count > 0) {
      best_of_link.push_back(*file.step);
    }
  }
  std::vector<format::Best> best;
  for (const auto& [step, metric] : metrics) {
    if (contains(steps, step)) {
      format::note_validation(best, {step, metric}, count);
    }
  }
  std::vector<std::int64_t> found = best_of_link;
  for (const format::Best& validation : best) {
    found.push_back(validation.step);
  }
  return found;
}

/// What the rules say of the usable checkpoints of a folder.
class Rules {
 public:
  Rules(const std::vector<SeenFile>& files, const PruneRules& rules)
      : rules_(rules), steps_(usable_steps(files)), best_(best_steps(files, steps_, rules.keep_best)) {
    superfluous_ = format::superfluous_steps(
        steps_, {.keep_last = rules.keep_last, .keep_every = rules.keep_every, .best_steps = best_});
  }

  [[nodiscard]] bool any() const { return !steps_.empty(); }

  [[nodiscard]] Fate fate_of(const SeenFile& file) const {
    const std::int64_t step = *file.step;
    if (contains(superfluous_, step)) {
      return {true, "superfluous"};
    }
    std::vector<std::string> reasons;
    if (steps_.end() - std::ranges::find(steps_, step) <= rules_.keep_last) {
      reasons.push_back(fmt::format("one of the newest {}", rules_.keep_last));
    }
    if (contains(best_, step)) {
      reasons.emplace_back(file.is_best ? "the best" : "one of the best");
    }
    if (reasons.empty()) {
      reasons.push_back(fmt::format("the first of its {} steps", rules_.keep_every));
    }
    return {false, fmt::format("{}", fmt::join(reasons, ", "))};
  }

 private:
  PruneRules rules_;
  std::vector<std::int64_t> steps_;  ///< ascending
  std::vector<std::int64_t> best_;
  std::vector<std::int64_t> superfluous_;
};

/// Of a file that is no usable checkpoint.
Fate fate_of_other(const SeenFile& file, bool has_usable) {
  if (!file.entry.is_regular) {
    return {false, "no regular file"};
  }
  switch (file.state) {
    case FileState::Unfinished:
      return {true, "left by a crash"};
    case FileState::Unnamed:
      return has_usable ? Fate{true, "left by a crash"} : Fate{false, "whole, and no sound checkpoint is beside it"};
    case FileState::Writing:
      return {false, "its writer may be at work"};
    case FileState::SetAside:
    case FileState::Superseded:
      return {false, "yours to look at and delete"};
    case FileState::Committed:
      return {false, "not a name that a training gives"};
    case FileState::Damaged:
    case FileState::Newer:
    case FileState::Unreadable:
      return {false, file.reason};
    case FileState::Foreign:
      break;
  }
  return {false, "no checkpoint"};
}

}  // namespace

bool is_of_training(const SeenFile& file) { return format::parse_file_name(name_of(file)).has_value(); }

bool is_usable_checkpoint(const SeenFile& file) {
  return file.state == FileState::Committed && file.entry.is_regular && file.step &&
         name_of(file) == format::checkpoint_name(*file.step);
}

std::vector<Fate> fates_of(const std::vector<SeenFile>& files, const PruneRules& rules) {
  const Rules of_checkpoints(files, rules);
  std::vector<Fate> fates;
  fates.reserve(files.size());
  for (const SeenFile& file : files) {
    fates.push_back(is_usable_checkpoint(file) ? of_checkpoints.fate_of(file)
                                               : fate_of_other(file, of_checkpoints.any()));
  }
  return fates;
}

}  // namespace rollcall::checkpoint_tool
