#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/train_config.h"
#include "trainer/data/loader/loader.h"
#include "trainer/metrics/step_times.h"
#include "trainer/train/checkpoint_writer.h"
#include "trainer/train/observer.h"
#include "trainer/train/outcome.h"
#include "trainer/train/totals.h"
#include "trainer/train/training.h"
#include "trainer/train/world.h"

namespace rollcall::train {

// The two halves of a step: gradients are added up over its batches and exchanged; the optimizer uses them.

/// What this rank adds up over the batches of a step.
struct StepSums {
  double begin = 0;    ///< seconds_now()
  double loading = 0;  ///< seconds that workers spent on the batches
  Totals totals = {};
  metrics::StepTimes times = {};
};

/// The gradients of a step: forward and backward of each of its batches, added up, and exchanged with the other ranks
/// behind the last one. Collective: every rank calls the same in the same order. Main thread only. All functions throw
/// what LibTorch throws.
class Accumulation {
 public:
  /// All references outlive it. `keeps_buffers`: for take_buffers_before().
  Accumulation(const config::TrainConfig& config, const World& world, Training& training, Observer& observer,
               bool keeps_buffers);

  /// That this rank trains with in a step: --grad-accumulation for each of its virtual ranks.
  [[nodiscard]] std::int64_t batches() const { return batches_; }
  /// Before a step's first batch.
  void begin();
  /// Batch `done`, counted from 0, of step `step`.
  void add(const data::Batch& read, std::int64_t done, std::int64_t step, StepSums& sums);
  /// Waits for what the ranks exchange: gradients are those of all then.
  void finish(StepSums& sums);

  /// The step was counted; its buffers are no longer wanted.
  void forget_buffers() { buffers_before_.clear(); }
  /// Of the step that is under way: see Kept::buffers_before.
  [[nodiscard]] std::vector<at::Tensor> take_buffers_before() { return std::move(buffers_before_); }

 private:
  const config::TrainConfig& config_;
  const World& world_;
  Training& training_;
  parallel::Replica& replica_;
  Observer& observer_;
  const bool keeps_buffers_;
  const std::int64_t batches_;
  std::vector<at::Tensor> buffers_before_;
};

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
