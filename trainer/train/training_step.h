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
#include "trainer/optim/device_step.h"
#include "trainer/train/captured_work.h"
#include "trainer/train/checkpoint_writer.h"
#include "trainer/train/observer.h"
#include "trainer/train/outcome.h"
#include "trainer/train/step_graph.h"
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
  at::Tensor counted = {};  ///< count() of all batches
  bool captured = false;    ///< by a graph, into the same tensor each time
  metrics::StepTimes times = {};
};

/// A step whose optimizer's step was taken, or enqueued on a device, until the host knows what came of it.
struct StepUnderWay {
  StepSums sums;
  StepNumbers numbers;
  SumsOfRanks of_ranks = {};
};

/// The gradients of a step: forward and backward of each of its batches, added up, and exchanged with the other ranks
/// behind the last one. Collective: every rank calls the same in the same order. Main thread only. All functions throw
/// what LibTorch throws.
class Accumulation {
 public:
  /// All references outlive it. `keeps_buffers`: for take_buffers_before(). `captures`: steps become a graph.
  Accumulation(const config::TrainConfig& config, const World& world, Training& training, Observer& observer,
               bool keeps_buffers, bool captures);

  /// That this rank trains with in a step: --grad-accumulation for each of its virtual ranks.
  [[nodiscard]] std::int64_t batches() const { return batches_; }
  /// Whether steps are a graph, or become one.
  [[nodiscard]] bool captures() const { return graph_.has_value(); }
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
  /// Forward and backward of batch `done`, of which the host may know nothing but its tensors; what it counts.
  at::Tensor compute(const data::Batch& batch, std::int64_t done, metrics::StepTimes& times);
  /// All of a step, its batches on the device, as a graph.
  at::Tensor compute_all(const std::vector<data::Batch>& batches);
  [[nodiscard]] bool is_graph_ready() const { return graph_ && graph_->is_ready(); }

  const config::TrainConfig& config_;
  const World& world_;
  Training& training_;
  parallel::Replica& replica_;
  Observer& observer_;
  const bool keeps_buffers_;
  std::optional<StepGraph> graph_;
  const std::int64_t batches_;
  std::vector<at::Tensor> buffers_before_;
};

/// What a step's gradients are for: what the ranks tell each other about them, clipping, the optimizer's step and the
/// loss scale; and what becomes of a step whose gradients are not finite. Every rank does the same, with its own part.
/// Collective. Main thread only.
///
/// On a CPU the host looks at the ranks' totals and takes the step or leaves it out. A device does that by itself: all
/// of it is enqueued, and the host hears of it while the device computes the next step.
class Update {
 public:
  /// All references outlive it. The loss scale goes on as `progress` has it. `at_once`: the host is to know of each
  /// step before the next one, on a device too; steps are none of a graph then.
  Update(const config::TrainConfig& config, const World& world, Training& training, CheckpointWriter& writer,
         Observer& observer, checkpoint::Progress& progress, bool at_once);

  /// Whether the host may hear of a step a step later.
  [[nodiscard]] bool lags() const { return on_device_.has_value(); }
  /// Takes the step, or leaves it out where gradients are not finite on some rank. Nothing, or how the run ends.
  [[nodiscard]] std::optional<Outcome> apply(StepUnderWay& step);
  /// Whether the model may be a step further than what is counted: from apply() to counted().
  [[nodiscard]] bool is_ahead() const { return is_ahead_; }
  void counted() { is_ahead_ = false; }

  /// What came of the oldest step that was not heard of: `totals` of all ranks, its numbers, and the loss scale behind
  /// it in the run's progress. Counts and tells a step that was left out. Nothing, or how the run ends: its connections
  /// failed, or it leaves out every step.
  [[nodiscard]] std::optional<Outcome> hear(StepUnderWay& step, Totals& totals);

 private:
  /// The gradients of this rank; takes the loss scale out of them. Collective with fp16.
  [[nodiscard]] bool gradients_are_finite();
  [[nodiscard]] std::optional<Outcome> decide(StepUnderWay& step);
  [[nodiscard]] std::optional<Outcome> enqueue(StepUnderWay& step);
  /// What the device does in enqueue(), all of which may be a graph; what the host is to hear of it.
  at::Tensor change(const at::Tensor& counted, const at::Tensor& of_host);
  at::Tensor change_by_graph(const at::Tensor& counted, const at::Tensor& of_host);
  /// The sums over all ranks, on the device; collective.
  at::Tensor exchange(const at::Tensor& counted, const at::Tensor& non_finite, const at::Tensor& of_host);
  void tell(StepUnderWay& step);
  void clip(at::Tensor& norm);
  [[nodiscard]] std::optional<Outcome> after(const StepUnderWay& step, const Totals& totals);

  const config::TrainConfig& config_;
  const World& world_;
  Training& training_;
  CheckpointWriter& writer_;
  Observer& observer_;
  checkpoint::Progress& progress_;
  std::optional<optim::DeviceStep> on_device_;  ///< nothing: the host decides
  CapturedWork graph_;
  at::Tensor told_;  ///< what the graph reads of this rank's host
  at::Tensor back_;  ///< what it has for the host
  bool is_ahead_ = false;
  std::int64_t skipped_in_a_row_ = 0;  ///< steps left out
};

}  // namespace rollcall::train
