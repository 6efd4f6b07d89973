#include "trainer/tools/checkpoint/prune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>

#include "runtime/base/owned_file.h"
#include "runtime/base/text.h"
#include "trainer/checkpoint/format/file_state.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/format/retention.h"
#include "trainer/storage/file.h"
#include "trainer/tools/checkpoint/checkpoint_file.h"

namespace rollcall::checkpoint_tool {
namespace {

namespace fs = std::filesystem;
namespace format = checkpoint::format;
using format::FileState;

std::string name_of(const ListedFile& file) { return fs::path(file.path).filename().string(); }

bool contains(const std::vector<std::int64_t>& steps, std::int64_t step) {
  return std::ranges::find(steps, step) != steps.end();
}

/// Returns the steps of the usable checkpoints, ascending.
std::vector<std::int64_t> usable_steps(const std::vector<ListedFile>& files) {
  std::vector<std::int64_t> steps;
  for (const ListedFile& file : files) {
    if (is_usable_checkpoint(file)) {
      steps.push_back(*file.step);
    }
  }
  std::ranges::sort(steps);
  return steps;
}

/// Returns the `count` steps with the best validations, and that of best.h5. A training's newest checkpoint records as
/// many as its own --keep-best kept; older ones may record more.
std::vector<std::int64_t> best_steps(const std::vector<ListedFile>& files, const std::vector<std::int64_t>& steps,
                                     std::size_t count) {
  std::map<std::int64_t, double> metrics;
  std::vector<std::int64_t> best_of_link;
  for (const ListedFile& file : files) {
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

/// Applies the rules to the usable checkpoints of a folder.
class Rules {
 public:
  Rules(const std::vector<ListedFile>& files, const PruneRules& rules)
      : rules_(rules), steps_(usable_steps(files)), best_(best_steps(files, steps_, rules.keep_best)) {
    superfluous_ = format::superfluous_steps(
        steps_, {.keep_last = rules.keep_last, .keep_every = rules.keep_every, .best_steps = best_});
  }

  [[nodiscard]] bool any() const { return !steps_.empty(); }

  [[nodiscard]] PruneDecision decision_for(const ListedFile& file) const {
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
      reasons.push_back("the first of its " + counted(rules_.keep_every, "step"));
    }
    return {false, fmt::format("{}", fmt::join(reasons, ", "))};
  }

 private:
  PruneRules rules_;
  std::vector<std::int64_t> steps_;  ///< ascending
  std::vector<std::int64_t> best_;
  std::vector<std::int64_t> superfluous_;
};

/// Decides about a file that is not a usable checkpoint.
PruneDecision decision_for_other(const ListedFile& file, bool has_usable) {
  if (!file.entry.is_own) {
    return {false, fmt::format("belongs to user {}", file.entry.owner)};
  }
  if (!file.entry.is_regular) {
    return {false, "not a regular file"};
  }
  switch (file.state) {
    case FileState::Unfinished:
      return {true, "left by a crash"};
    case FileState::Unnamed:
      return has_usable ? PruneDecision{true, "left by a crash"}
                        : PruneDecision{false, "complete, and the folder holds no intact checkpoint"};
    case FileState::Writing:
      return {false, "it may still be being written"};
    case FileState::SetAside:
    case FileState::Superseded:
      return {false, "left for you to inspect and delete"};
    case FileState::Committed:
      return {false, "not named as a training names checkpoints"};
    case FileState::Damaged:
    case FileState::Newer:
    case FileState::Unreadable:
      return {false, file.reason};
    case FileState::Foreign:
      break;
  }
  return {false, "not a checkpoint"};
}

/// Reads a usable checkpoint completely. A damaged one is no longer usable.
void verify(PrunedFile& pruned, metrics::WorkProgress& progress) {
  ListedFile& file = pruned.file;
  const auto opened = CheckpointFile::open(file.path);
  const auto damaged = opened ? opened->find_damaged(format::default_threads(), progress)
                              : Result<std::vector<std::string>>(opened.error());
  progress.end();
  if (!damaged) {
    const bool is_damage = damaged.error().kind == ErrorKind::BadData;
    file.state = is_damage ? format::FileState::Damaged : format::FileState::Unreadable;
    file.reason = damaged.error().reason;
  } else if (!damaged->empty()) {
    file.state = format::FileState::Damaged;
    file.reason = fmt::format("{} of its tensors and values damaged", damaged->size());
  }
  pruned.verified = is_usable_checkpoint(file);
}

/// Removes best.h5 if its target was removed.
void remove_link_to(const ListedFile& removed) {
  const fs::path link = fs::path(removed.path).parent_path() / "best.h5";
  std::error_code ignored;
  if (removed.is_best && fs::is_symlink(link, ignored) && !fs::exists(link, ignored)) {
    ::unlink(link.c_str());
  }
}

/// Removes a file if it is still the one that was read: a training may be running in the folder.
Result<void> remove_file(PrunedFile& pruned) {
  const ListedFile& file = pruned.file;
  const auto now = DirectoryEntry::at(file.path);
  if (!now || !now->is_same_file_as(file.entry)) {
    pruned.decision = {false, now ? "was replaced in the meantime" : "was removed in the meantime"};
    return {};
  }
  if (::unlink(file.path.c_str()) != 0 && errno != ENOENT) {
    return fail("checkpoint", file.path, "cannot be removed: " + errno_text(errno),
                what_to_try(errno, "removing it yourself"), ErrorKind::InputOutput);
  }
  pruned.removed = true;
  remove_link_to(file);
  return {};
}

}  // namespace

bool is_of_training(const ListedFile& file) { return format::parse_file_name(name_of(file)).has_value(); }

bool is_usable_checkpoint(const ListedFile& file) {
  return file.state == FileState::Committed && file.entry.is_regular && file.entry.is_own && file.step &&
         name_of(file) == format::checkpoint_name(*file.step);
}

std::vector<PruneDecision> prune_decisions(const std::vector<ListedFile>& files, const PruneRules& rules) {
  const Rules of_checkpoints(files, rules);
  std::vector<PruneDecision> decisions;
  decisions.reserve(files.size());
  for (const ListedFile& file : files) {
    decisions.push_back(is_usable_checkpoint(file) ? of_checkpoints.decision_for(file)
                                                   : decision_for_other(file, of_checkpoints.any()));
  }
  return decisions;
}

void decide(Pruning& pruning) {
  std::vector<ListedFile> files;
  for (const PrunedFile& pruned : pruning.files) {
    files.push_back(pruned.file);
  }
  const std::vector<PruneDecision> decisions = prune_decisions(files, pruning.rules);
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    pruning.files[i].decision = decisions[i];
  }
}

void verify_newest(Pruning& pruning, metrics::WorkProgress& progress) {
  std::int64_t sound = 0;
  for (auto pruned = pruning.files.rbegin(); pruned != pruning.files.rend() && sound < pruning.rules.keep_last;
       ++pruned) {
    if (is_usable_checkpoint(pruned->file)) {
      verify(*pruned, progress);
      sound += pruned->verified ? 1 : 0;
    }
  }
}

Result<void> remove_files(Pruning& pruning) {
  bool any = false;
  for (PrunedFile& pruned : pruning.files) {
    if (!pruned.decision.is_removed) {
      continue;
    }
    RETURN_IF_ERROR(remove_file(pruned));
    any = any || pruned.removed;
  }
  if (any && !storage::sync_folder_of(pruning.files.front().file.path)) {
    return fail("checkpoint", pruning.folder, "cannot be written to the device: " + errno_text(errno),
                what_to_try(errno, "checking the folder's file system"), ErrorKind::InputOutput);
  }
  return {};
}

}  // namespace rollcall::checkpoint_tool
