#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/progress.h"
#include "trainer/config/train_config.h"
#include "trainer/train/checkpoints/checkpoint_writer.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Which validations are the best: those whose checkpoints lie in the folder. What a better one drives out keeps its
/// checkpoint until the new one's is there, and takes its place again where that cannot be written.
///
/// Every rank calls every function; those that return a Result are collective, where not said otherwise. Errors
/// (PeerLost): a peer was lost.
class BestCheckpoints {
 public:
  /// All outlive this object.
  BestCheckpoints(const config::CheckpointConfig& config, const World& world, CheckpointWriter& writer)
      : config_(config), world_(world), writer_(writer) {}

  /// The best validations of the training that is gone on with, so far as they count here; a part of a line for people
  /// on those that do not, or an empty text. `other_images`: they were of other images than this run's.
  [[nodiscard]] Result<std::string> go_on(checkpoint::Progress& progress, bool other_images);
  /// Enters the validation of the present step among the best of `progress`: whether it is one, and to be saved.
  [[nodiscard]] Result<bool> note(checkpoint::Progress& progress, double metric);
  /// Before a save: once that of the last validation among the best has ended, the best are those that have a
  /// checkpoint.
  [[nodiscard]] Result<void> settle(checkpoint::Progress& progress);
  /// Whether the next save is that of the last validation among the best, at the present `step`.
  [[nodiscard]] bool is_about_to_be_saved(std::int64_t step) const { return unsettled_ == step; }
  /// For another object that goes on with `progress`: a validation among the best whose checkpoint may not be there is
  /// repeated, and what it drove out counts again.
  void give_back(checkpoint::Progress& progress) const;
  /// What a save at `progress` keeps.
  [[nodiscard]] checkpoint::format::Retention retention(const checkpoint::Progress& progress) const;

 private:
  /// Those of `validations` whose checkpoints lie in the folder and are this training's, as rank 0 sees it. Not while a
  /// save is under way.
  [[nodiscard]] Result<std::vector<checkpoint::Best>> with_checkpoints(
      const std::vector<checkpoint::Best>& validations);

  const config::CheckpointConfig& config_;
  const World& world_;
  CheckpointWriter& writer_;
  std::int64_t unsettled_ = -1;  ///< the step of the last validation among the best, until its save is known to be done
  std::vector<checkpoint::Best> driven_out_;  ///< those of before that validation
};

}  // namespace rollcall::train
