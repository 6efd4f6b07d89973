#include "trainer/train/loop.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <cmath>
#include <utility>

#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"
#include "trainer/train/fitting_batch.h"
#include "trainer/train/process.h"

namespace rollcall::train {

Loop::Loop(const config::TrainConfig& config, const World& world, Training& training, Checkpoints& checkpoints,
           Observer& observer, checkpoint::Progress& progress, TimeLimit limit, elastic::AgentLink* agent,
           bool captures)
    : config_(config),
      world_(world),
      training_(training),
      checkpoints_(checkpoints),
      observer_(observer),
      progress_(progress),
      limit_(std::move(limit)),
      agent_(agent),
      trace_(config.run, world, observer),
      update_(config, world, training, checkpoints.writer(), observer, progress, /*at_once=*/agent != nullptr),
      accumulation_(config, world, training, observer, /*keeps_buffers=*/agent != nullptr, captures) {}

Outcome Loop::run() {
  first_step_of_run_ = progress_.global_step + 1;
  Outcome outcome = run_epochs();
  if (outcome.ending == Ending::Failed) {
    return outcome;
  }
  const Result<void> traced = trace_.finish(outcome.ending);
  return traced ? outcome : failed(traced.error(), true);
}

Outcome Loop::run_epochs() {
  if (config_.run.valid_epochs == 0) {
    progress_.validation_due = 0;  // none is wanted any more
  }
  if (Stop stop = finish_interrupted()) {
    return *stop;
  }
  if (checkpoints_.ends_an_epoch() && at_last_step() &&
      progress_.epoch < config_.run.epochs) {  // a kill came between its last step and its end
    observer_.begin_epoch(progress_.step_in_epoch);
    if (Stop stop = after_epoch()) {
      return *stop;
    }
  }
  while (progress_.epoch < config_.run.epochs && !at_last_step()) {
    if (Stop stop = train_epoch()) {
      return *stop;
    }
  }
  return Outcome{};
}

Loop::Stop Loop::finish_interrupted() {
  const bool last = progress_.epoch == config_.run.epochs || at_last_step();
  const bool due = progress_.step_in_epoch > 0 ? checkpoints_.due_after_step(progress_.global_step)
                                               : checkpoints_.due_after_epoch(progress_.epoch);
  validates_again_ = progress_.validation_due != 0;
  const bool saving = checkpoints_.went_on_from_memory() && progress_.global_step > 0 && (last || due);
  Stop stop = save_and_validate(saving, last);
  validates_again_ = false;
  return stop;
}

std::int64_t Loop::schedule_step() const {
  if (config_.optim.schedule == optim::ScheduleKind::Cosine && config_.run.max_steps > 0 &&
      training_.schedule.total_steps == config_.run.max_steps) {
    return progress_.global_step;
  }
  return progress_.epoch * training_.steps_of_epoch +
         progress_.sample_position / (progress_.world_size * progress_.batch_size);
}

Loop::Stop Loop::train_epoch() {
  DataPipeline& data = training_.data;
  data.train_sampler->set_epoch(static_cast<std::uint64_t>(progress_.epoch), progress_.sample_position);
  if (const Result<void> started = data.train_loader->start(*data.train_sampler); !started) {
    return failed(started.error());
  }
  training_.model->train();
  first_step_ = progress_.step_in_epoch;
  steps_in_epoch_ = first_step_ + data.train_sampler->steps();
  observer_.begin_epoch(steps_in_epoch_);
  while (progress_.step_in_epoch < steps_in_epoch_) {
    if (const Result<void> traced = trace_.before_step(progress_.global_step + 1); !traced) {
      return failed(traced.error(), true);
    }
    StepSums sums{.begin = seconds_now()};
    if (Stop stop = begin_step()) {
      return stop;
    }
    for (std::int64_t done = 0; done < accumulation_.batches(); ++done) {
      const double asked = seconds_now();
      const Result<data::Batch> batch = next_batch();
      if (!batch) {
        return failed(batch.error());
      }
      sums.totals.waited += seconds_now() - asked;
      observer_.bad_samples(batch->bad);
      count_bad_samples(*batch, sums.totals.average);
      if (Stop stop = catch_training_errors(
              world_, [&] { accumulation_.add(*batch, done, progress_.global_step + 1, sums); })) {
        Error& error = stop->failure->error;
        if (!accumulation_.captures()) {  // whose memory is nobody else's
          error = with_fitting_batch(error, training_, config_, world_, batch->images.sizes());
        }
        return stop;
      }
    }
    if (Stop stop = finish_step(sums)) {
      return stop;
    }
  }
  trace_.no_step();
  return after_epoch();
}

Result<data::Batch> Loop::next_batch() {
  RECORD_USER_SCOPE("data: wait for a batch");
  ASSIGN_OR_RETURN(std::optional<data::Batch> batch, training_.data.train_loader->next());
  if (!batch.has_value()) {
    return fail("data", "", "an epoch's batches ended before its steps", "reporting it", ErrorKind::Internal);
  }
  return *std::move(batch);
}

Loop::Stop Loop::begin_step() {
  return catch_training_errors(world_, [&] {
    numbers_ = {.step = progress_.global_step + 1,
                .step_in_epoch = progress_.step_in_epoch + 1,
                .learning_rate = optim::learning_rate(training_.schedule, schedule_step())};
    optim::set_learning_rate(*training_.optimizer, numbers_.learning_rate);
    accumulation_.begin();
  });
}

Loop::Stop Loop::finish_step(StepSums& sums) {
  if (Stop stop = catch_training_errors(world_, [&] { accumulation_.finish(sums); })) {
    return stop;
  }
  const Asked asked_for = asked();
  sums.totals.stopping = asked_for.to_stop ? 1 : 0;
  sums.totals.regrouping = asked_for.to_regroup ? 1 : 0;
  sums.totals.saving = checkpoints_.writer().under_way() ? 1 : 0;
  sums.totals.gave_up = checkpoints_.writer().gave_up() ? 1 : 0;
  sums.totals.evicted = checkpoints_.lost_folder() ? 1 : 0;
  sums.times.data = sums.totals.waited;
  sums.times.steps = 1;
  under_way_.push_back({.sums = std::move(sums), .numbers = numbers_});
  if (Stop stop = update_.apply(under_way_.back())) {
    return stop;
  }
  under_way_.back().sums.times.elapsed = seconds_now() - under_way_.back().sums.begin;
  count_step();
  const Stop ended = hear_of_steps();
  if (const Result<void> traced = trace_.after_step(progress_.global_step); !ended && !traced) {
    return failed(traced.error(), true);
  }
  return ended ? ended : after_step();
}

void Loop::count_step() {
  accumulation_.forget_buffers();
  progress_.global_step += 1;
  progress_.step_in_epoch += 1;
  progress_.sample_position = training_.data.train_sampler->position_after(progress_.step_in_epoch - first_step_);
  update_.counted();
}

bool Loop::is_asked_to_act() const {
  return heard_.stopping > 0 || heard_.regrouping > 0 || heard_.gave_up > 0 || heard_.evicted > 0;
}

bool Loop::is_due_after_step() const {
  const std::int64_t step = progress_.global_step;
  return progress_.step_in_epoch == steps_in_epoch_ || at_last_step() || checkpoints_.due_after_step(step) ||
         checkpoints_.replica_due_after_step(step);
}

Loop::Stop Loop::hear_of_steps() {
  const std::size_t later = update_.lags() && !is_due_after_step() ? 1 : 0;
  while (under_way_.size() > (is_asked_to_act() ? 0 : later)) {
    if (Stop stop = hear(under_way_.front())) {
      return stop;
    }
    under_way_.pop_front();
  }
  return std::nullopt;
}

Loop::Stop Loop::hear(StepUnderWay& step) {
  const double begun = seconds_now();
  Stop left_out = update_.hear(step, heard_);
  StepSums& last = under_way_.back().sums;  // of the time that the host spent, this is the last step's
  last.times.wait += seconds_now() - begun;
  last.times.elapsed = seconds_now() - last.begin;
  if (left_out) {
    return left_out;
  }
  const metrics::DataWait wait{.waited = heard_.waited / world_.world_size,
                               .elapsed = step.sums.times.elapsed,
                               .loading = step.sums.loading,
                               .workers = training_.data.train_loading.workers};
  observer_.step_took(step.sums.times, wait);
  progress_.epoch_totals += heard_.average;
  progress_.unrecorded += heard_.average;
  observer_.step_done(progress_, heard_.average, step.numbers);
  if (!std::isfinite(heard_.average.loss_sum)) {
    const bool first_of_run = step.numbers.step == first_step_of_run_ && step.numbers.step > 1;
    return all_fail(loss_not_finite(heard_.average.loss(), step.numbers.step, first_of_run));
  }
  if (Stop stop = too_many_bad(progress_.epoch_totals, training_.data.datasets.train->size(), "training")) {
    return stop;
  }
  return adjust_workers(step.sums.totals.waited, wait);
}

Loop::Stop Loop::adjust_workers(double waited, const metrics::DataWait& step) {
  DataPipeline& data = training_.data;
  const std::optional<int> workers = data.tuning.after_step(waited, step.elapsed, step.loading);
  if (!workers) {
    return std::nullopt;
  }
  const std::int64_t next_batch = (progress_.step_in_epoch - first_step_) * accumulation_.batches();
  const Result<void> changed = data.continue_with_workers(*workers, next_batch);
  if (changed) {
    observer_.note(fmt::format("step {}: training waited for data: {} workers from here on, {} before",
                               progress_.global_step, *workers, step.workers));
    return std::nullopt;
  }
  observer_.warn(fmt::format("{} workers as before: {}", step.workers, changed.error().reason));
  data.tuning = {};
  const Result<void> as_before = data.continue_with_workers(step.workers, next_batch);
  return as_before ? std::nullopt : Stop(failed(as_before.error()));
}

Loop::Stop Loop::after_step() {
  tell_saves();
  others_saving_ = heard_.saving > 0;
  if (heard_.gave_up > 0) {
    const Error error = checkpoints_.writer().last_failure();
    tell_saves();
    return failed_everywhere(error, world_.rank);
  }
  if (heard_.evicted > 0) {
    return failed(checkpoints_.taken_over(), world_.rank != 0);  // every rank has it
  }
  if (ends_in_mid_epoch()) {
    progress_.validation_due = config_.run.valid_epochs > 0 ? 1 : 0;
  }
  // Where the run's last step ends an epoch too, only its end is left: after_epoch(), whose validation hears a stop.
  if (heard_.stopping > 0 && (!at_last_step() || ends_in_mid_epoch())) {
    return interrupted();
  }
  if (heard_.regrouping > 0 && !at_last_step()) {
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
  return catch_training_errors(world_, [&] { checkpoints_.make_room(progress_); });
}

Loop::Stop Loop::after_epoch() {
  observer_.end_epoch(progress_);
  progress_.epoch += 1;
  progress_.step_in_epoch = 0;
  progress_.sample_position = 0;
  progress_.epoch_totals = {};
  const bool last = progress_.epoch == config_.run.epochs || at_last_step();
  progress_.validation_due = validation_due(last) ? 1 : 0;
  return save_and_validate(last || checkpoints_.due_after_epoch(progress_.epoch), last);
}

Loop::Stop Loop::save_and_validate(bool saving, bool last) {
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
  if (last || among_best_) {
    return save(last ? Urgency::Final : Urgency::Due);
  }
  return std::nullopt;
}

Loop::Stop Loop::validate() {
  const double begun = seconds_now();
  metrics::RunningAverage sums;
  std::optional<Outcome> ended = run_validation(
      config_, world_, training_, observer_, [&] { return asked(); }, sums);
  if (ended && ended->ending == Ending::Interrupted) {
    return interrupted_validation(seconds_now() - begun);
  }
  if (ended && ended->ending == Ending::Regrouped) {
    return regrouped();
  }
  if (ended) {
    return ended;
  }
  observer_.validated(progress_, sums, seconds_now() - begun);
  if (!std::isfinite(sums.loss_sum)) {
    return all_fail(validation_not_finite(sums.loss(), progress_.global_step));
  }
  if (Stop stop = too_many_bad(sums, training_.data.datasets.valid->size(), "validation")) {
    return stop;
  }
  const Result<bool> among_best = checkpoints_.note_validation(progress_, sums.top1());
  if (!among_best) {
    return failed(among_best.error(), true);
  }
  among_best_ = *among_best;
  return std::nullopt;
}

Loop::Stop Loop::too_many_bad(const metrics::RunningAverage& sums, std::int64_t images, const char* part) {
  if (static_cast<double>(sums.bad()) <= config_.run.max_bad_samples * static_cast<double>(images)) {
    return std::nullopt;
  }
  return all_fail(too_many_bad_samples(sums, images, part, config_.data.given));
}

/// What every rank came to by the same numbers. All are there still, so that a save under way is not lost with them.
Loop::Stop Loop::all_fail(Error error) {
  checkpoints_.writer().finish_save();
  tell_saves();
  return failed(std::move(error), world_.rank != 0);
}

Loop::Stop Loop::interrupted() {
  if (Stop stop = save(Urgency::Final)) {
    return stop;
  }
  return Outcome{Ending::Interrupted, std::nullopt};
}

Loop::Stop Loop::interrupted_validation(double seconds) {
  if (!validates_again_) {
    return interrupted();
  }
  const bool in_vain = progress_.validation_due >= kValidationsInVain;
  progress_.validation_due = in_vain ? 1 : progress_.validation_due + 1;  // who submits it again has changed something
  if (!in_vain) {
    return interrupted();
  }
  if (Stop stop = save(Urgency::Final)) {
    return stop;
  }
  return all_fail(validation_does_not_fit(seconds, progress_.global_step));
}

Loop::Stop Loop::save(Urgency urgency) {
  observer_.record_steps(progress_);
  Result<bool> saved = false;
  if (Stop failed = catch_training_errors(
          world_, [&] { saved = checkpoints_.save(progress_, urgency, others_saving_); })) {  // the device, say
    return failed;
  }
  tell_saves();
  if (saved) {
    if (!*saved) {
      observer_.save_skipped(progress_.global_step);
    }
    return std::nullopt;
  }
  // Every rank has this error, and rank 0 tells it.
  const bool lost_peer = saved.error().exit_code() == ExitCode::Unavailable;
  return failed(saved.error(), lost_peer || world_.rank != 0);
}

Loop::Stop Loop::regrouped() {
  // An agent ends workers that do not let go in time (--shutdown-timeout), and with them the copy of before.
  constexpr double kMostSeconds = 5;
  const Outcome regrouped{Ending::Regrouped, std::nullopt};
  observer_.record_steps(progress_);
  if (config_.parallel.replicate_steps == 0) {
    return regrouped;
  }
  const bool takes_long = others_saving_ || copy_seconds_ > kMostSeconds;
  at::Tensor slow = torch::tensor({takes_long ? 1 : 0}, at::kInt);
  if (Result<void> told = process_group::all_reduce_sum(world_.process_group, slow); !told) {
    return failed(told.error(), true);
  }
  const Stop stop = slow.item<int>() == 0 ? replicate(false) : std::nullopt;
  return stop ? stop : regrouped;
}

Loop::Stop Loop::replicate(bool may_skip) {
  observer_.record_steps(progress_);
  Result<bool> begun = false;
  if (Stop failed =
          catch_training_errors(world_, [&] { begun = checkpoints_.replicate(progress_, others_saving_, may_skip); })) {
    return failed;
  }
  tell_saves();
  if (begun) {
    return std::nullopt;
  }
  return failed(begun.error(), begun.error().exit_code() == ExitCode::Unavailable || world_.rank != 0);
}

void Loop::tell_saves() {
  for (const SaveReport& report : checkpoints_.writer().take_reports()) {
    observer_.saved(report);
    if (report.copied_bytes) {
      copy_seconds_ = report.outcome.durable_seconds;
    } else {
      warn_of_slow_save(report.outcome.durable_seconds);
    }
  }
}

void Loop::warn_of_slow_save(double seconds) {
  const std::string warning = slow_save_warning(seconds, limit_.notice(), config_.checkpoint.save_before_limit > 0);
  if (!warning.empty() && !std::exchange(warned_of_slow_save_, true)) {
    observer_.warn(warning);
  }
}

Asked Loop::asked() {
  const double now = wall_seconds_now();
  if (stop_signal() == 0 && limit_.near(now)) {
    observer_.note("the job's time limit is near (--save-before-limit)");
  }
  return {.to_stop = stop_signal() != 0 || limit_.near(now), .to_regroup = agent_ != nullptr && agent_->told_to_hold()};
}

bool Loop::validation_due(bool last) const {
  return config_.run.valid_epochs > 0 && (last || progress_.epoch % config_.run.valid_epochs == 0);
}

bool Loop::at_last_step() const { return config_.run.max_steps > 0 && progress_.global_step >= config_.run.max_steps; }

bool Loop::ends_in_mid_epoch() const { return at_last_step() && progress_.step_in_epoch < steps_in_epoch_; }

}  // namespace rollcall::train
