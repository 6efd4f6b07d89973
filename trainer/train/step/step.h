#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/metrics/step_times.h"
#include "trainer/optim/device_step.h"
#include "trainer/precision/lowered_weights.h"
#include "trainer/train/observer/observer.h"
#include "trainer/train/step/loop.h"
#include "trainer/train/step/step_graph.h"
#include "trainer/train/step/totals.h"

namespace rollcall::train {

/// A step whose update was done, or enqueued on a device, until the host has its results.
struct Step {
  StepNumbers numbers;
  double begin = 0;    ///< seconds_now()
  double loading = 0;  ///< seconds that workers spent on its batches
  Totals totals = {};  ///< of this rank; of all ranks once its results are collected
  double waited = 0;   ///< seconds that this rank waited for its batches
  metrics::StepTimes times = {};
  bool captured = false;    ///< a graph computes it
  at::Tensor counted = {};  ///< count() of all batches, without a graph
  SumsOfRanks of_ranks = {};
  /// Returns the error that ends the run on every rank after this step; empty: the run continues.
  std::function<Error(bool has_checkpoint)> gives_up = {};
};

/// Runs the steps of a training: computes the gradients of a step's batches, adds them up and exchanges them; exchanges
/// the ranks' totals; clips the gradients, runs the optimizer and adjusts the loss scale; and skips a step whose
/// gradients are not finite. Collective: every rank does the same with its own part of the data. Main thread only.
///
/// On a CPU the host reads the ranks' totals and then updates the parameters or skips the update. A device decides that
/// by itself: all work is enqueued, and the host receives the results while the device computes the next step. With an
/// agent the host collects each step before the next one.
///
/// Its members are the training and the state of the steps in progress.
class Steps {
 public:
  /// Restores the loss scale from the run's progress.
  explicit Steps(const Run& run);

  /// Starts an epoch at the position of its sampler, from which the run resumes.
  void begin_epoch() { first_step_ = run_.progress.step_in_epoch; }
  /// Runs the next step of the epoch and counts it in the run's progress. Calls `asked` once the gradients are
  /// complete. Returns nothing, or the outcome that ends the run.
  [[nodiscard]] std::optional<Outcome> take(const std::function<Requests()>& asked);
  /// Returns the number of steps whose results were not collected.
  [[nodiscard]] std::size_t under_way() const { return under_way_.size(); }
  /// Returns whether the host may collect a step one step later.
  [[nodiscard]] bool is_async() const { return on_device_.has_value(); }
  /// Collects the results of the oldest outstanding step: its totals of all ranks, its numbers, and the loss scale
  /// after it in the run's progress. Counts and reports a skipped step; after too many in a row, `collected` gives up.
  /// Returns nothing, or the outcome that ends the run: connections failed.
  [[nodiscard]] std::optional<Outcome> collect(Step& collected);

  /// Returns the number of the training loader's batch with which the next step begins.
  [[nodiscard]] std::int64_t next_batch_of_epoch() const {
    return (run_.progress.step_in_epoch - first_step_) * batches_;
  }
  /// Returns whether model, moments and progress are consistent: not between the optimizer's step and its count.
  [[nodiscard]] bool is_between_updates() const { return !is_ahead_; }
  /// With an agent: returns the copies from before the step in progress, see InMemoryState::buffers_before.
  [[nodiscard]] std::vector<at::Tensor> take_buffers_before() { return std::move(buffers_before_); }

 private:
  /// Returns the position in the learning rate's schedule: by epochs, in steps of this run's size, so that a training
  /// that resumes with steps of another size resumes its schedule too. For a cosine schedule that --max-steps ends it
  /// is the number of steps done.
  [[nodiscard]] std::int64_t schedule_step() const;
  void begin(Step& step);
  [[nodiscard]] Result<data::Batch> next_batch();
  void seed(std::int64_t step, std::int64_t done) const;
  void begin_gradients();
  void add(const data::Batch& read, std::int64_t done, Step& step);
  at::Tensor forward_backward(const data::Batch& batch, std::int64_t done, metrics::StepTimes& times);
  at::Tensor forward_backward_of_all(const std::vector<data::Batch>& batches);
  void finish_gradients(Step& step);
  void send_totals(Step& step, const Requests& asked);
  void update_by_host(Step& step);
  void update_on_device(Step& step);
  at::Tensor enqueue_update(const at::Tensor& counted, const at::Tensor& from_host);
  at::Tensor sum_over_ranks(const at::Tensor& counted, const at::Tensor& non_finite, const at::Tensor& from_host);
  [[nodiscard]] bool gradients_are_finite();
  void clip(at::Tensor& norm);
  /// Returns the decay with which a step's weights join their average; nothing if they do not.
  [[nodiscard]] std::optional<double> average_decay(const Step& step) const;
  void average_statistics(const Step& step);
  void average_weights(const Step& step);
  void count_step();
  void after(Step& step);

  const Run& run_;
  const config::TrainConfig& config_;
  Training& training_;
  parallel::Replica& replica_;
  const std::vector<double> drop_rates_;        ///< of the model
  const std::int64_t batches_;                  ///< batches of this rank in a step: of each of its virtual ranks
  std::int64_t first_step_ = 0;                 ///< of the current epoch that this run does
  std::optional<StepGraph> graph_;              ///< --cuda-graph
  std::optional<optim::DeviceStep> on_device_;  ///< unset: the host decides
  precision::LoweredWeights lowered_;           ///< of the model, for its forward passes here only
  std::deque<Step> under_way_;
  std::vector<at::Tensor> buffers_before_;
  bool is_ahead_ = false;
  std::int64_t skipped_in_a_row_ = 0;
};

}  // namespace rollcall::train
