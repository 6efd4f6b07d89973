#pragma once

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/elastic/worker_link.h"
#include "trainer/config/train_config.h"
#include "trainer/train/checkpoints.h"
#include "trainer/train/observer.h"
#include "trainer/train/outcome.h"
#include "trainer/train/step_trace.h"
#include "trainer/train/stop_request.h"
#include "trainer/train/totals.h"
#include "trainer/train/training.h"
#include "trainer/train/training_step.h"
#include "trainer/train/validation.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// The training loop: epochs of steps, validation, checkpoints, until the end or until a stop signal reached any rank
/// (all ranks stop after the same step: the signal travels with the step's totals). On a device the host hears of a
/// step while the device computes the next one; where something is due between the two, it waits. Collective: every
/// rank runs it with its own part of the data. Main thread only.
class Loop {
 public:
  /// All references outlive the loop. `progress` says where to begin and is kept up to date. `agent`: says when the
  /// world changes; null where it does not. `captures`: steps are captured
  /// as a graph (captures_steps()).
  Loop(const config::TrainConfig& config, const World& world, Training& training, Checkpoints& checkpoints,
       Observer& observer, checkpoint::Progress& progress, TimeLimit limit, elastic::AgentLink* agent, bool captures);

  [[nodiscard]] Outcome run();
  /// Whether model, moments and progress belong together: not where run() ended between the optimizer's step and its
  /// being counted.
  [[nodiscard]] bool is_between_updates() const { return !update_.is_ahead(); }
  /// With an agent, of the step in which run() ended: see Kept::buffers_before.
  [[nodiscard]] std::vector<at::Tensor> take_buffers_before() { return accumulation_.take_buffers_before(); }

 private:
  // Each returns nothing to go on, or the outcome that ends the run.
  using Stop = std::optional<Outcome>;

  /// Where the learning rate's schedule is: as far as the epochs are, in steps of this run's size. So a training that
  /// goes on with steps of another size goes on with its schedule too. While all had one size, and for a cosine that
  /// --max-steps ends: the steps done.
  [[nodiscard]] std::int64_t schedule_step() const;
  [[nodiscard]] Outcome run_epochs();
  /// What the step where this run begins had come to, but not to the end of: its validation and, where ranks go on with
  /// what they have in memory, its save.
  [[nodiscard]] Stop finish_interrupted();
  [[nodiscard]] Stop train_epoch();
  [[nodiscard]] Result<data::Batch> next_batch();
  [[nodiscard]] Stop begin_step();
  /// What the gradients of all its batches are for.
  [[nodiscard]] Stop finish_step(StepSums& sums);
  /// The last step's update was taken or enqueued: it belongs to the run's progress.
  void count_step();
  /// Of all steps but, on a device, the last one; of that too where something is due behind it.
  [[nodiscard]] Stop hear_of_steps();
  [[nodiscard]] Stop hear(StepUnderWay& step);
  /// What the last step that was heard of demands on all ranks.
  [[nodiscard]] bool is_asked_to_act() const;
  /// Whether a save, a copy or an end lies between this step and the next.
  [[nodiscard]] bool is_due_after_step() const;
  /// For --train-num-workers=auto: after a step for whose data this rank `waited` seconds.
  [[nodiscard]] Stop adjust_workers(double waited, const metrics::DataWait& step);
  [[nodiscard]] Stop after_step();
  [[nodiscard]] Stop after_epoch();
  /// Saves where `saving` (nothing is lost then if the job ends while it validates), validates where that is due, and
  /// saves the outcome where the run ends here or the model is among the best.
  [[nodiscard]] Stop save_and_validate(bool saving, bool last);
  /// An interruption during it is one before it: a resumed run validates from the beginning.
  [[nodiscard]] Stop validate();
  /// Ends a run that leaves out more of its `images` than --max-bad-samples allows.
  [[nodiscard]] Stop all_fail(Error error);
  [[nodiscard]] Stop too_many_bad(const metrics::RunningAverage& sums, std::int64_t images, const char* part);
  [[nodiscard]] Stop interrupted();
  /// After so many seconds of it. A run that has done nothing else, as the one before it had not come to its end
  /// either, is no step further than that: ends so that the job is not requeued for ever.
  [[nodiscard]] Stop interrupted_validation(double seconds);
  [[nodiscard]] Stop save(Urgency urgency);
  /// To a neighbour's memory.
  [[nodiscard]] Stop replicate(bool may_skip);
  /// Nodes come or go: where the model is divided, what ranks do not have whole is copied first, if that takes no time
  /// to speak of.
  [[nodiscard]] Stop regrouped();
  void tell_saves();
  /// Once.
  void warn_of_slow_save(double seconds);
  [[nodiscard]] Asked asked();
  [[nodiscard]] bool validation_due(bool last) const;
  [[nodiscard]] bool at_last_step() const;
  /// --max-steps ends the run here, before the end of an epoch.
  [[nodiscard]] bool ends_in_mid_epoch() const;

  const config::TrainConfig& config_;
  const World& world_;
  Training& training_;
  Checkpoints& checkpoints_;
  Observer& observer_;
  checkpoint::Progress& progress_;
  TimeLimit limit_;
  elastic::AgentLink* agent_;
  StepTrace trace_;
  Update update_;
  Accumulation accumulation_;
  std::int64_t first_step_ = 0;  ///< of the current epoch that this run does
  std::int64_t steps_in_epoch_ = 0;
  StepNumbers numbers_;                 ///< of the current step
  std::deque<StepUnderWay> under_way_;  ///< that were not heard of: the last one, after finish_step() none or it alone
  Totals heard_;                        ///< of the last step that was heard of
  std::int64_t first_step_of_run_ = 0;  ///< that this run does
  bool warned_of_slow_save_ = false;
  bool validates_again_ = false;  ///< what an earlier run did not come to the end of; no step was done since
  bool among_best_ = false;       ///< the last validation's checkpoint is to be kept
  double copy_seconds_ = 0;       ///< that the last copy to a neighbour took
  bool others_saving_ = false;    ///< a rank's save was under way when the last step ended
};

}  // namespace rollcall::train
