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
#include "trainer/train/observer/observer.h"
#include "trainer/train/step/loop.h"
#include "trainer/train/step/step_graph.h"
#include "trainer/train/step/totals.h"

namespace rollcall::train {

/// A step whose update was taken, or enqueued on a device, until the host knows what came of it.
struct Step {
  StepNumbers numbers;
  double begin = 0;    ///< seconds_now()
  double loading = 0;  ///< seconds that workers spent on its batches
  Totals totals = {};  ///< what this rank adds up; once it was heard of, of all ranks
  double waited = 0;   ///< seconds that this rank waited for its batches
  metrics::StepTimes times = {};
  at::Tensor counted = {};  ///< count() of all batches
  bool captured = false;    ///< by a graph, into the same tensor each time
  SumsOfRanks of_ranks = {};
};

/// The steps of a training: gradients of a step's batches, added up and exchanged; what the ranks tell each other about
/// them; clipping, the optimizer's step and the loss scale; and what becomes of a step whose gradients are not finite.
/// Collective: every rank does the same, with its own part of the data. Main thread only.
///
/// On a CPU the host looks at the ranks' totals and takes the update or leaves it out. A device does that by itself:
/// all of it is enqueued, and the host hears of it while the device computes the next step; not with an agent, which is
/// to know of each step before the next one.
///
/// Its members are the training that it works on, and the state of the steps under way.
class Steps {
 public:
  /// The loss scale goes on as the run's progress has it.
  explicit Steps(const Run& run);

  /// An epoch's sampler stands where the run goes on.
  void begin_epoch() { first_step_ = run_.progress.step_in_epoch; }
  /// Takes the next step of the epoch and counts it in the run's progress. `asked`: once its gradients are there.
  /// Nothing, or how the run ends.
  [[nodiscard]] std::optional<Outcome> take(const std::function<Asked()>& asked);
  /// Steps that were taken and not heard of.
  [[nodiscard]] std::size_t under_way() const { return under_way_.size(); }
  /// Whether the host may hear of a step a step later.
  [[nodiscard]] bool lags() const { return on_device_.has_value(); }
  /// What came of the oldest step that was not heard of: its totals of all ranks, its numbers, and the loss scale
  /// behind it in the run's progress. Counts and tells a step that was left out. Nothing, or how the run ends: its
  /// connections failed, or it leaves out every step.
  [[nodiscard]] std::optional<Outcome> hear(Step& heard);

  /// The training loader's batch that the next step begins with.
  [[nodiscard]] std::int64_t next_batch_of_epoch() const {
    return (run_.progress.step_in_epoch - first_step_) * batches_;
  }
  /// Whether model, moments and progress belong together: not between the optimizer's step and its being counted.
  [[nodiscard]] bool is_between_updates() const { return !is_ahead_; }
  /// With an agent, of the step that is under way: see Kept::buffers_before.
  [[nodiscard]] std::vector<at::Tensor> take_buffers_before() { return std::move(buffers_before_); }

 private:
  /// Where the learning rate's schedule is: as far as the epochs are, in steps of this run's size. So a training that
  /// goes on with steps of another size goes on with its schedule too. While all had one size, and for a cosine that
  /// --max-steps ends: the steps done.
  [[nodiscard]] std::int64_t schedule_step() const;
  void begin(Step& step);
  [[nodiscard]] Result<data::Batch> next_batch();
  void add(const data::Batch& read, std::int64_t done, Step& step);
  at::Tensor forward_backward(const data::Batch& batch, std::int64_t done, metrics::StepTimes& times);
  at::Tensor forward_backward_of_all(const std::vector<data::Batch>& batches);
  void finish_gradients(Step& step);
  void tell_ranks(Step& step, const Asked& asked);
  void update_by_host(Step& step);
  void update_on_device(Step& step);
  at::Tensor enqueue_update(const at::Tensor& counted, const at::Tensor& of_host);
  at::Tensor enqueue_update_as_graph(const at::Tensor& counted, const at::Tensor& of_host);
  at::Tensor exchange(const at::Tensor& counted, const at::Tensor& non_finite, const at::Tensor& of_host);
  [[nodiscard]] bool gradients_are_finite();
  void clip(at::Tensor& norm);
  void count_step();
  [[nodiscard]] std::optional<Outcome> after(const Step& step);
  [[nodiscard]] bool is_graph_ready() const { return graph_ && graph_->is_ready(); }

  const Run& run_;
  const config::TrainConfig& config_;
  Training& training_;
  parallel::Replica& replica_;
  const std::int64_t batches_;                  ///< that this rank trains with in a step: of each of its virtual ranks
  std::int64_t first_step_ = 0;                 ///< of the current epoch that this run does
  std::optional<StepGraph> graph_;              ///< of the gradients (--cuda-graph)
  CapturedWork update_graph_;                   ///< of the update
  at::Tensor told_;                             ///< what that graph reads of this rank's host
  at::Tensor back_;                             ///< what it has for the host
  std::optional<optim::DeviceStep> on_device_;  ///< nothing: the host decides
  std::deque<Step> under_way_;
  std::vector<at::Tensor> buffers_before_;
  bool is_ahead_ = false;
  std::int64_t skipped_in_a_row_ = 0;  ///< steps left out
};

}  // namespace rollcall::train
