#include "trainer/train/step/loop.h"

#include <fmt/format.h>
#include <cmath>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/elastic/worker_link.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"
#include "trainer/train/checkpoints/checkpoints.h"
#include "trainer/train/observer/step_trace.h"
#include "trainer/train/process.h"
#include "trainer/train/step/adjust_workers.h"
#include "trainer/train/step/step.h"
#include "trainer/train/step/validation.h"
#include "trainer/train/stop_request.h"

namespace rollcall::train {
namespace {

/// Does what is due between two steps and at an epoch's end. Its members are the run and its position.
class Loop {
 public:
  explicit Loop(const Run& run) : run_(run) {}

  [[nodiscard]] LoopEnd run() {
    first_step_of_run_ = progress_.global_step + 1;
    Outcome outcome = run_epochs();
    if (outcome.ending != Ending::Failed) {
      const Result<void> traced = trace_.finish(outcome.ending);
      outcome = traced ? outcome : failed(traced.error());
    }
    return {std::move(outcome), steps_.is_between_updates(), steps_.take_buffers_before()};
  }

 private:
  // The functions return nothing to continue, or the outcome that ends the run.
  using Stop = std::optional<Outcome>;

  Outcome run_epochs() {
    if (config_.run.valid_epochs == 0) {
      progress_.validation_due = 0;  // no longer requested
    }
    if (Stop stop = finish_interrupted()) {
      return *stop;
    }
    if (checkpoints_.ends_an_epoch() && at_last_step() &&
        progress_.epoch < config_.run.epochs) {  // the run was killed between the epoch's last step and its end
      observer_.begin_epoch(progress_.step_in_epoch);
      if (Stop stop = after_epoch()) {
        return *stop;
      }
    }
    while (progress_.epoch < config_.run.epochs && !at_last_step() && !stops_early()) {
      if (Stop stop = train_epoch()) {
        return *stop;
      }
    }
    return Outcome{};
  }

  /// Completes what the step at which this run starts had begun: its validation and, if ranks continue from memory, its
  /// save.
  Stop finish_interrupted() {
    const bool last = progress_.epoch == config_.run.epochs || at_last_step();
    const bool due = progress_.step_in_epoch > 0 ? checkpoints_.due_after_step(progress_.global_step)
                                                 : checkpoints_.due_after_epoch(progress_.epoch);
    validates_again_ = progress_.validation_due != 0;
    const bool saving = checkpoints_.resumed_from_memory() && progress_.global_step > 0 && (last || due);
    Stop stop = save_and_validate(saving, last);
    validates_again_ = false;
    return stop;
  }

  Stop train_epoch() {
    DataPipeline& data = run_.training.data;
    data.train_sampler->set_epoch(static_cast<std::uint64_t>(progress_.epoch), progress_.sample_position);
    if (const Result<void> started = data.train_loader->start(*data.train_sampler); !started) {
      return failed(started.error());
    }
    run_.training.model->train();
    steps_.begin_epoch();
    steps_in_epoch_ = progress_.step_in_epoch + data.train_sampler->steps();
    observer_.begin_epoch(steps_in_epoch_);
    while (progress_.step_in_epoch < steps_in_epoch_) {
      if (const Result<void> traced = trace_.before_step(progress_.global_step + 1); !traced) {
        return failed(traced.error());
      }
      run_.context.group_options.membership->begin_step(progress_.global_step + 1);
      if (Stop stop = steps_.take([this] { return asked(); })) {
        return stop;
      }
      const Stop ended = collect_steps();
      if (const Result<void> traced = trace_.after_step(progress_.global_step); !ended && !traced) {
        return failed(traced.error());
      }
      if (Stop stop = ended ? ended : after_step()) {
        return stop;
      }
    }
    trace_.no_step();
    return after_epoch();
  }

  /// Returns whether a save, a copy or an end is due between this step and the next.
  bool is_due_after_step() const {
    const std::int64_t step = progress_.global_step;
    return progress_.step_in_epoch == steps_in_epoch_ || at_last_step() || checkpoints_.due_after_step(step) ||
           checkpoints_.replica_due_after_step(step);
  }

  /// Collects all steps except, on a device, the last one; also that one if something is due after it.
  Stop collect_steps() {
    const std::size_t later = steps_.is_async() && !is_due_after_step() ? 1 : 0;
    while (steps_.under_way() > (last_totals_.ask_to_act() ? 0 : later)) {
      if (Stop stop = collect()) {
        return stop;
      }
    }
    return std::nullopt;
  }

  Stop collect() {
    Step step;
    if (Stop stop = steps_.collect(step)) {
      return stop;
    }
    if (step.gives_up) {
      return all_fail(step.gives_up(checkpoints_.has_checkpoint()));
    }
    last_totals_ = step.totals;
    const metrics::DataWait wait{.waited = last_totals_.waited / run_.context.world_size,
                                 .elapsed = step.times.elapsed,
                                 .loading = step.loading,
                                 .workers = run_.training.data.train_loading.workers};
    observer_.step_took(step.times, wait);
    progress_.epoch_totals += last_totals_.average;
    progress_.unrecorded += last_totals_.average;
    observer_.step_done(progress_, last_totals_.average, step.numbers);
    if (!std::isfinite(last_totals_.average.loss_sum)) {
      const bool first_of_run = step.numbers.step == first_step_of_run_ && step.numbers.step > 1;
      return all_fail(
          loss_not_finite(last_totals_.average.loss(), step.numbers.step, checkpoints_.has_checkpoint(), first_of_run));
    }
    if (Stop stop = too_many_bad(progress_.epoch_totals, run_.training.data.datasets.train->size(), "training")) {
      return stop;
    }
    const Result<void> adjusted = adjust_workers(run_, step.waited, wait, steps_.next_batch_of_epoch());
    return adjusted ? std::nullopt : Stop(failed(adjusted.error()));
  }

  Stop after_step() {
    report_saves();
    others_saving_ = last_totals_.saving > 0;
    if (last_totals_.gave_up > 0) {
      const Error error = checkpoints_.writer().last_failure();
      report_saves();
      return failed_everywhere(error);
    }
    if (last_totals_.evicted > 0) {
      return failed(checkpoints_.taken_over());  // every rank has this error
    }
    if (ends_in_mid_epoch()) {
      progress_.validation_due = config_.run.valid_epochs > 0 ? 1 : 0;
    }
    // If the run's last step also ends an epoch, only after_epoch() is left, whose validation reacts to a stop.
    if (last_totals_.stopping > 0 && (!at_last_step() || ends_in_mid_epoch())) {
      return interrupted();
    }
    if (last_totals_.regrouping > 0 && !at_last_step()) {
      return regrouped();
    }
    if (ends_in_mid_epoch()) {
      const Stop stop = save_and_validate(true, true);
      return stop ? stop : Outcome{};
    }
    const bool copy_first = !others_saving_ && checkpoints_.replica_overdue_after_step(progress_.global_step);
    if (checkpoints_.due_after_step(progress_.global_step) && !copy_first) {
      return save(Urgency::MaySkip);
    }
    if (checkpoints_.replica_due_after_step(progress_.global_step)) {
      return replicate(true);
    }
    return catch_training_errors(run_.context, [&] { checkpoints_.make_room(progress_); });
  }

  Stop after_epoch() {
    observer_.end_epoch(progress_);
    progress_.epoch += 1;
    progress_.step_in_epoch = 0;
    progress_.sample_position = 0;
    progress_.epoch_totals = {};
    const bool last = progress_.epoch == config_.run.epochs || at_last_step();
    const std::int64_t every = config_.run.valid_epochs;
    progress_.validation_due = every > 0 && (last || progress_.epoch % every == 0) ? 1 : 0;
    return save_and_validate(last || checkpoints_.due_after_epoch(progress_.epoch), last);
  }

  /// Saves if `saving` (so that nothing is lost if the job ends during the validation), validates if that is due, and
  /// saves the result if the run ends here or the model is among the best.
  Stop save_and_validate(bool saving, bool last) {
    const bool validating = progress_.validation_due != 0;
    if (saving) {
      if (Stop stop = save(last ? Urgency::Final : Urgency::Due)) {
        return stop;
      }
    }
    if (!validating) {
      return std::nullopt;
    }
    if (Stop stop = validate()) {
      return stop;
    }
    progress_.validation_due = 0;
    const bool ends = last || stops_early();
    if (ends && !last) {
      observer_.note(
          fmt::format("no better validation than that of step {} in the last {}: the training ends "
                      "(--early-stopping)",
                      progress_.best_step, progress_.not_better));
    }
    return ends || among_best_ ? save(ends ? Urgency::Final : Urgency::Due) : std::nullopt;
  }

  /// An interruption during the validation counts as one before it: a resumed run validates from the beginning.
  Stop validate() {
    run_.context.group_options.membership->end_step(progress_.global_step);
    const double begun = seconds_now();
    Validated found;
    std::optional<Outcome> ended = run_validation(
        run_, [this] { return asked(); }, found);
    if (ended) {
      return ended->ending == Ending::Interrupted ? interrupted_validation(seconds_now() - begun)
             : ended->ending == Ending::Regrouped ? regrouped()
                                                  : ended;
    }
    observer_.validated(progress_, found.model, found.average, seconds_now() - begun);
    const metrics::RunningAverage& sums = found.model.sums;
    if (!std::isfinite(sums.loss_sum)) {
      return all_fail(validation_not_finite(sums.loss(), progress_.global_step, checkpoints_.has_checkpoint()));
    }
    if (Stop stop = too_many_bad(sums, run_.training.data.datasets.valid->size(), "validation")) {
      return stop;
    }
    const Result<bool> among_best = checkpoints_.best().note(progress_, found.deciding().quality());
    if (!among_best) {
      return failed(among_best.error());
    }
    among_best_ = *among_best;
    progress_.not_better = progress_.best_step == progress_.global_step ? 0 : progress_.not_better + 1;
    return std::nullopt;
  }

  /// Ends a run that skips more of its `images` than --max-bad-samples allows.
  Stop too_many_bad(const metrics::RunningAverage& sums, std::int64_t images, const char* part) {
    if (static_cast<double>(sums.bad()) <= config_.run.max_bad_samples * static_cast<double>(images)) {
      return std::nullopt;
    }
    return all_fail(too_many_bad_samples(sums, images, part, config_.data.given));
  }

  /// Ends the run with an error that every rank computed from the same numbers. All ranks are alive, so a save in
  /// progress is completed first.
  Stop all_fail(Error error) {
    checkpoints_.writer().finish_save();
    report_saves();
    return failed(std::move(error));
  }

  Stop interrupted() {
    const Stop stop = save(Urgency::Final);
    return stop ? stop : Outcome{Ending::Interrupted, std::nullopt};
  }

  /// Handles an interruption after so many seconds of validation. If this run and the ones before it did nothing else,
  /// the run ends with an error, so that the job is not requeued for ever.
  Stop interrupted_validation(double seconds) {
    const bool in_vain = validates_again_ && progress_.validation_due >= kMaxFailedValidations;
    if (validates_again_) {  // a user who submits it again after that has changed something
      progress_.validation_due = in_vain ? 1 : progress_.validation_due + 1;
    }
    if (!in_vain) {
      return interrupted();
    }
    const Stop stop = save(Urgency::Final);
    return stop ? stop : all_fail(validation_does_not_fit(seconds, progress_.global_step));
  }

  Stop save(Urgency urgency) {
    bool saved = false;
    Stop stop = keep_state([&] { return checkpoints_.save(progress_, urgency, others_saving_); }, saved);
    if (!stop && !saved) {
      observer_.save_skipped(progress_.global_step);
    }
    return stop;
  }

  /// Handles a change of the world: if the model is sharded, the ranks first replicate their parts, provided that this
  /// takes little time.
  Stop regrouped() {
    // An agent kills workers that do not stop in time (--shutdown-timeout), and with them the previous replica.
    constexpr double kMostSeconds = 5;
    const Outcome regrouped{Ending::Regrouped, std::nullopt};
    observer_.record_steps(progress_);
    if (config_.parallel.replicate_steps == 0) {
      return regrouped;
    }
    const bool takes_long = others_saving_ || copy_seconds_ > kMostSeconds;
    at::Tensor slow = torch::tensor({takes_long ? 1 : 0}, at::kInt);
    if (Result<void> received = process_group::all_reduce_sum(run_.context.process_group, slow); !received) {
      return failed(received.error());
    }
    const Stop stop = slow.item<int>() == 0 ? replicate(false) : std::nullopt;
    return stop ? stop : regrouped;
  }

  /// Copies the state to a peer's memory.
  Stop replicate(bool may_skip) {
    bool begun = false;
    return keep_state([&] { return checkpoints_.replicate(progress_, others_saving_, may_skip); }, begun);
  }

  /// Runs `save` and stores its result in `done`. Every rank has its error, and one reports it.
  Stop keep_state(const std::function<Result<bool>()>& save, bool& done) {
    run_.context.group_options.membership->end_step(progress_.global_step);
    observer_.record_steps(progress_);
    Result<bool> saved = false;
    if (Stop failed =
            catch_training_errors(run_.context, [&] { saved = save(); })) {  // for instance a failure of the device
      return failed;
    }
    report_saves();
    if (!saved) {
      return failed(saved.error());
    }
    done = *saved;
    return std::nullopt;
  }

  void report_saves() {
    for (const SaveReport& report : checkpoints_.writer().take_reports()) {
      observer_.saved(report);
      if (report.copied_bytes) {
        copy_seconds_ = report.outcome.durable_seconds;
        continue;
      }
      const std::string slow = slow_save_warning(report.outcome.durable_seconds, run_.limit.notice(),
                                                 config_.checkpoint.save_before_limit > 0);
      if (!slow.empty() && !std::exchange(warned_of_slow_save_, true)) {
        observer_.warn(slow);
      }
    }
  }

  Requests asked() {
    const double now = wall_seconds_now();
    if (stop_signal() == 0 && run_.limit.near(now)) {
      observer_.note("the job's time limit is near (--save-before-limit)");
    }
    return {.to_stop = stop_signal() != 0 || run_.limit.near(now),
            .to_regroup = run_.agent != nullptr && run_.agent->hold_requested()};
  }

  bool at_last_step() const { return config_.run.max_steps > 0 && progress_.global_step >= config_.run.max_steps; }

  bool stops_early() const {
    return config_.run.early_stopping > 0 && progress_.not_better >= config_.run.early_stopping;
  }

  /// Returns whether --max-steps ends the run here, before the end of an epoch.
  bool ends_in_mid_epoch() const { return at_last_step() && progress_.step_in_epoch < steps_in_epoch_; }

  const Run& run_;
  const config::TrainConfig& config_ = run_.config;
  Checkpoints& checkpoints_ = run_.checkpoints;
  Observer& observer_ = run_.observer;
  checkpoint::Progress& progress_ = run_.progress;
  StepTrace trace_{config_.run, run_.context, observer_};
  Steps steps_{run_};
  std::int64_t steps_in_epoch_ = 0;
  Totals last_totals_;                  ///< of the last step that was collected
  std::int64_t first_step_of_run_ = 0;  ///< first step of this run
  bool warned_of_slow_save_ = false;
  bool validates_again_ = false;  ///< repeating a validation that an earlier run did not finish; no step was done since
  bool among_best_ = false;       ///< the last validation's checkpoint will be kept
  double copy_seconds_ = 0;       ///< duration of the last replication, seconds
  bool others_saving_ = false;    ///< a save of any rank was in progress when the last step ended
};

}  // namespace

LoopEnd run_loop(const Run& run) { return Loop(run).run(); }

}  // namespace rollcall::train
