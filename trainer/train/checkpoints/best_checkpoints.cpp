#include "trainer/train/checkpoints/best_checkpoints.h"

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/checkpoint/format/folder.h"

namespace rollcall::train {
namespace {

namespace fs = std::filesystem;

/// The metric of a validation of other images: below every real metric.
constexpr double kNotComparable = -1;

/// Stores the first `keep` of `best`, sorted by descending metric, and the very best of them.
void take_best(checkpoint::Progress& progress, std::vector<checkpoint::Best> best, std::size_t keep) {
  best.resize(std::min(best.size(), keep));
  const bool none = best.empty() || best.front().metric == kNotComparable;
  progress.best_step = none ? -1 : best.front().step;
  progress.best_metric = none ? 0 : best.front().metric;
  progress.best = std::move(best);
}

/// Returns whether the file certainly does not exist: a file system that fails for a moment has lost nothing.
bool is_gone(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  const bool untold = type == fs::file_type::none || type == fs::file_type::unknown;
  return !untold && type != fs::file_type::regular;
}

}  // namespace

Result<std::string> BestCheckpoints::resume(checkpoint::Progress& progress, bool other_images) {
  std::vector<checkpoint::Best> then = progress.best;
  if (then.empty() && progress.best_step >= 0) {  // written before checkpoints had the list
    then.push_back({progress.best_step, progress.best_metric});
  }
  const std::size_t keep = config_.keep_best;
  if (keep == 0 && other_images) {
    take_best(progress, {}, keep);
  }
  if (then.empty() || keep == 0) {
    return std::string();
  }
  ASSIGN_OR_RETURN(auto there, with_checkpoints(then));
  const std::size_t gone = then.size() - there.size();
  take_best(progress, std::move(there), keep);
  if (other_images) {  // worse than every new one, but kept until there is one
    for (checkpoint::Best& one : progress.best) {
      one.metric = kNotComparable;
    }
    progress.best_step = -1;
    progress.best_metric = 0;
    return std::string("; the validation images changed, so the best checkpoint is chosen again");
  }
  return gone == 0 ? std::string()
                   : fmt::format("; {} of its {} best validations no longer count, as their checkpoints are not in {}",
                                 gone, then.size(), config_.load.folder);
}

Result<bool> BestCheckpoints::note(checkpoint::Progress& progress, double metric) {
  RETURN_IF_ERROR(settle(progress));
  const checkpoint::Best validation{progress.global_step, metric};
  std::vector<checkpoint::Best> before = progress.best;
  const bool among_best = checkpoint::format::note_validation(progress.best, validation, config_.keep_best);
  if (among_best) {
    unsettled_ = progress.global_step;
    displaced_ = std::move(before);
  }
  std::vector<checkpoint::Best> very_best;  // also if no checkpoint is kept for it
  if (progress.best_step >= 0) {
    very_best.push_back({progress.best_step, progress.best_metric});
  }
  if (checkpoint::format::note_validation(very_best, validation, 1)) {
    progress.best_step = validation.step;
    progress.best_metric = validation.metric;
  }
  return among_best;
}

void BestCheckpoints::restore_displaced(checkpoint::Progress& progress) const {
  if (unsettled_ < 0) {
    return;
  }
  for (const checkpoint::Best& one : displaced_) {
    if (std::ranges::find(progress.best, one.step, &checkpoint::Best::step) == progress.best.end()) {
      progress.best.push_back(one);
    }
  }
  std::ranges::stable_sort(progress.best, std::greater<>(), &checkpoint::Best::metric);
  if (unsettled_ == progress.global_step) {
    progress.validation_due = 1;
  }
}

Result<void> BestCheckpoints::settle(checkpoint::Progress& progress) {
  if (unsettled_ < 0) {
    return {};
  }
  writer_.finish_save();
  std::vector<checkpoint::Best> candidates = progress.best;
  candidates.insert(candidates.end(), displaced_.begin(), displaced_.end());
  ASSIGN_OR_RETURN(auto there, with_checkpoints(candidates));
  std::vector<checkpoint::Best> best;
  for (const checkpoint::Best& one : there) {
    if (std::ranges::find(best, one.step, &checkpoint::Best::step) == best.end()) {
      best.push_back(one);
    }
  }
  take_best(progress, std::move(best), config_.keep_best);
  unsettled_ = -1;
  displaced_.clear();
  return {};
}

Result<std::vector<checkpoint::Best>> BestCheckpoints::with_checkpoints(
    const std::vector<checkpoint::Best>& validations) {
  std::vector<std::int64_t> there;
  for (const checkpoint::Best& one : validations) {
    const fs::path path = fs::path(config_.load.folder) / checkpoint::format::checkpoint_name(one.step);
    // Until this run's first save, checkpoints of later steps than its start belong to another training.
    const bool ours = one.step <= writer_.last_own_step_at(one.step);
    there.push_back(context_.rank == 0 && ours && !is_gone(path) ? 1 : 0);
  }
  ASSIGN_OR_RETURN(const auto seen, writer_.sum_over_ranks(std::move(there)));
  std::vector<checkpoint::Best> found;
  for (std::size_t i = 0; i < validations.size(); ++i) {
    if (seen[i] > 0) {
      found.push_back(validations[i]);
    }
  }
  return found;
}

checkpoint::format::Retention BestCheckpoints::retention(const checkpoint::Progress& progress) const {
  checkpoint::format::Retention retention = config_.retention;
  // Until its validation has shown that the model is sound, it displaces no other checkpoint.
  retention.keep_last += progress.validation_due != 0 ? 1 : 0;
  retention.keep_best = config_.keep_best;
  for (const auto* const validations : {&progress.best, &displaced_}) {
    for (const checkpoint::Best& best : *validations) {
      retention.best_steps.push_back(best.step);
    }
  }
  return retention;
}

}  // namespace rollcall::train
