#pragma once

#include <cstdint>
#include <optional>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/train_config.h"
#include "trainer/train/checkpoint_writer.h"
#include "trainer/train/observer.h"
#include "trainer/train/outcome.h"
#include "trainer/train/totals.h"
#include "trainer/train/training.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// What a step's gradients are for: clipping, the optimizer's step and the loss scale; and what becomes of a step whose
/// gradients are not finite. Every rank does the same, with its own part. Main thread only.
class Update {
 public:
  /// All references outlive it. The loss scale goes on as `progress` has it.
  Update(const config::TrainConfig& config, const World& world, Training& training, CheckpointWriter& writer,
         Observer& observer, checkpoint::Progress& progress);

  /// Whether this rank's are; takes the loss scale out of them. Collective with fp16; throws what LibTorch throws.
  [[nodiscard]] bool gradients_are_finite();
  /// The optimizer's step or, where gradients are not `finite` on some rank, none; `numbers` get the gradients' norm.
  /// Throws what LibTorch throws.
  void apply(bool finite, StepNumbers& numbers);
  /// Counts and tells a step that was left out; the outcome of a run that leaves out every step. `numbers` get the loss
  /// scale.
  [[nodiscard]] std::optional<Outcome> after(const Totals& totals, StepNumbers& numbers);

 private:
  const config::TrainConfig& config_;
  const World& world_;
  Training& training_;
  CheckpointWriter& writer_;
  Observer& observer_;
  checkpoint::Progress& progress_;
  std::int64_t skipped_in_a_row_ = 0;  ///< steps left out
};

}  // namespace rollcall::train
