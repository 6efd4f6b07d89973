#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/progress.h"
#include "trainer/config/train_config.h"
#include "trainer/train/checkpoints/checkpoint_writer.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {

/// Keeps the list of the best validations: those whose checkpoints are in the folder. A validation that a better one
/// displaces keeps its checkpoint until the better one's exists, and returns to the list if that cannot be written.
///
/// Every rank calls every function; functions that return a Result are collective unless stated otherwise. Errors
/// (PeerLost): a peer was lost.
class BestCheckpoints {
 public:
  /// All arguments outlive this object.
  BestCheckpoints(const config::CheckpointConfig& config, const JobContext& context, CheckpointWriter& writer)
      : config_(config), context_(context), writer_(writer) {}

  /// Takes over the best validations of the training that is resumed, as far as they count here. Returns part of a line
  /// for people about those that do not count, or an empty text. `other_images`: they used other images than this run.
  [[nodiscard]] Result<std::string> resume(checkpoint::Progress& progress, bool other_images);
  /// Adds the validation of the current step to `progress` if it is among the best; returns whether it is, so that it
  /// must be saved.
  [[nodiscard]] Result<bool> note(checkpoint::Progress& progress, double metric);
  /// Call before a save. If the save of the last validation among the best has ended, reduces the list to validations
  /// that have a checkpoint.
  [[nodiscard]] Result<void> settle(checkpoint::Progress& progress);
  /// Returns whether the next save is that of the last validation among the best, at the current `step`.
  [[nodiscard]] bool is_about_to_be_saved(std::int64_t step) const { return unsettled_ == step; }
  /// Prepares `progress` for another object that continues with it: a validation among the best whose checkpoint may be
  /// missing is repeated, and what it displaced counts again.
  void restore_displaced(checkpoint::Progress& progress) const;
  /// Returns which checkpoints a save at `progress` keeps.
  [[nodiscard]] checkpoint::format::Retention retention(const checkpoint::Progress& progress) const;

 private:
  /// Returns those of `validations` whose checkpoints are in the folder and belong to this training, as rank 0 sees it.
  /// Not while a save is in progress.
  [[nodiscard]] Result<std::vector<checkpoint::Best>> with_checkpoints(
      const std::vector<checkpoint::Best>& validations);

  const config::CheckpointConfig& config_;
  const JobContext& context_;
  CheckpointWriter& writer_;
  /// Step of the last validation among the best until its save has ended; -1: none.
  std::int64_t unsettled_ = -1;
  std::vector<checkpoint::Best> displaced_;  ///< validations that it displaced
};

}  // namespace rollcall::train
