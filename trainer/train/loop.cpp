#include "trainer/train/loop.h"

#include <fmt/format.h>
#include <chrono>
#include <cmath>
#include <utility>

#include "trainer/precision/loss_scaler.h"
#include "trainer/torch.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

/// The batch where the model computes.
data::Batch placed(data::Batch batch, const model::Device& device) {
  for (at::Tensor* const tensor : {&batch.images, &batch.labels, &batch.second_labels, &batch.counted}) {
    *tensor = device.place(*tensor);
  }
  return batch;
}

}  // namespace

Loop::Loop(const config::TrainConfig& config, const World& world, Training& training, Checkpoints& checkpoints,
           Observer& observer, checkpoint::Progress& progress, TimeLimit limit)
    : config_(config),
      world_(world),
      training_(training),
      replica_(*training.replica),
      checkpoints_(checkpoints),
      observer_(observer),
      progress_(progress),
      limit_(std::move(limit)) {
  training_.loss_scaler.set_state({.scale = progress_.loss_scale, .good_steps = progress_.loss_scale_good_steps});
}

Outcome Loop::run() {
  if (config_.run.valid_epochs == 0) {
    progress_.validation_due = 0;  // none is wanted any more
  }
  if (progress_.validation_due != 0) {  // it was interrupted
    if (Stop stop = save_and_validate(false, progress_.epoch == config_.run.epochs || at_last_step())) {
      return *stop;
    }
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

at::Tensor Loop::model_outputs(const data::Batch& batch) {
  const precision::Autocast autocast(config_.model.compute_type, world_.device.type());
  // One channels-last image would make all that is computed from it channels-last, whatever the weights are.
  const at::Tensor images = batch.images.to(replica_.input_type()).contiguous(config_.model.memory_format);
  return training_.model->forward(images).to(at::kFloat);
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
  while (true) {
    StepSums sums{.begin = seconds_now()};
    for (std::int64_t done = 0; done < config_.grad_accumulation(); ++done) {
      const double asked = seconds_now();
      Result<std::optional<data::Batch>> batch = data.train_loader->next();
      if (!batch) {
        return failed(batch.error());
      }
      if (!batch->has_value()) {  // the sampler gives whole steps, so none has begun
        return after_epoch();
      }
      sums.totals.waited += seconds_now() - asked;
      observer_.bad_samples((*batch)->bad);
      if (Stop stop = train_batch(**batch, done, sums)) {
        return stop;
      }
    }
    if (Stop stop = finish_step(sums)) {
      return stop;
    }
  }
}

Loop::Stop Loop::train_batch(const data::Batch& read, std::int64_t done, StepSums& sums) {
  const data::StageTimes& times = read.times;
  sums.loading += std::chrono::duration<double>(times.fetch + times.decode + times.augment).count();
  return catch_training_errors(world_, [&] {
    if (done == 0) {
      optim::set_learning_rate(*training_.optimizer, optim::learning_rate(training_.schedule, progress_.global_step));
      replica_.zero_grad();
    }
    replica_.set_gradient_sync(done + 1 == config_.grad_accumulation());
    const double begun = seconds_now();
    const data::Batch batch = placed(read, world_.device);
    at::Tensor outputs;
    at::Tensor losses;
    const at::Tensor loss = replica_.forward([&] {
      outputs = model_outputs(batch);
      losses = losses_of(outputs, batch, config_.optim.label_smoothing);
      return losses.mean();
    });
    const double forwarded = seconds_now();
    // The gradient of the mean over the whole step; dividing by 1 changes nothing.
    training_.loss_scaler.scale(loss / config_.grad_accumulation()).backward();
    sums.times.forward += forwarded - begun;
    sums.times.backward += seconds_now() - forwarded;
    sums.totals.average += count(outputs, batch.labels, losses, batch.counted);
  });
}

Loop::Stop Loop::finish_step(StepSums& sums) {
  precision::LossScaler& scaler = training_.loss_scaler;
  if (Stop stop = catch_training_errors(world_, [&] {
        const bool finite = scaler.on() ? scaler.unscale(*training_.optimizer, world_.process_group)
                                        : precision::all_finite(precision::gradients_of(*training_.optimizer));
        sums.totals.non_finite = finite ? 0 : 1;
      })) {
    return stop;
  }
  sums.totals.stopping = asked_to_stop() ? 1 : 0;
  sums.totals.saving = checkpoints_.writer().under_way() ? 1 : 0;
  sums.totals.gave_up = checkpoints_.writer().gave_up() ? 1 : 0;
  sums.totals.evicted = checkpoints_.lost_folder() ? 1 : 0;
  const Result<Totals> totals = exchange_totals(sums);
  if (!totals) {
    return failed(totals.error(), true);
  }
  const double told = seconds_now();
  if (Stop stop = catch_training_errors(world_, [&] { update(totals->non_finite == 0); })) {
    return stop;
  }
  sums.times.optimizer = seconds_now() - told;
  if (Stop stop = after_update(*totals)) {
    return stop;
  }
  metrics::DataWait wait;
  wait.waited = totals->waited / world_.world_size;
  wait.elapsed = seconds_now() - sums.begin;
  wait.loading = sums.loading;
  wait.workers = training_.data.train_loading.workers;
  sums.times.elapsed = wait.elapsed;
  sums.times.data = sums.totals.waited;
  sums.times.steps = 1;
  observer_.step_took(sums.times, wait);
  if (Stop stop = after_step(*totals)) {
    return stop;
  }
  return adjust_workers(sums.totals.waited, wait);
}

Result<Totals> Loop::exchange_totals(StepSums& sums) {
  const std::int64_t step = progress_.global_step + 1;
  std::vector<double> of_ranks = observer_.rank_times().tell(step);
  const double done = seconds_now();
  Result<Totals> totals = over_ranks(sums.totals, world_.process_group, world_.device, of_ranks);
  sums.times.wait = seconds_now() - done;
  observer_.rank_times().hear(step, of_ranks);
  return totals;
}

Loop::Stop Loop::adjust_workers(double waited, const metrics::DataWait& step) {
  DataPipeline& data = training_.data;
  const std::optional<int> workers = data.tuning.after_step(waited, step.elapsed, step.loading);
  if (!workers) {
    return std::nullopt;
  }
  const std::int64_t next_batch = (progress_.step_in_epoch - first_step_) * config_.grad_accumulation();
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

void Loop::update(bool finite) {
  if (finite) {
    if (config_.optim.clip_grad_norm > 0) {
      replica_.clip_grad_norm(config_.optim.clip_grad_norm);
    }
    checkpoints_.writer().before_update();
    training_.optimizer->step();
  }
  training_.loss_scaler.update();
}

Loop::Stop Loop::after_update(const Totals& totals) {
  const precision::LossScaler& scaler = training_.loss_scaler;
  if (scaler.on()) {
    progress_.loss_scale = scaler.state().scale;
    progress_.loss_scale_good_steps = scaler.state().good_steps;
  }
  if (totals.non_finite == 0) {
    skipped_in_a_row_ = 0;
    return std::nullopt;
  }
  if (!std::isfinite(totals.average.loss_sum)) {
    return std::nullopt;  // what after_step() tells
  }
  progress_.skipped_steps += 1;
  skipped_in_a_row_ += 1;
  const std::string where = precision::first_gradient_not_finite(replica_.named_parameters());
  observer_.skipped_step(progress_, scaler.on(), place_of(where));
  constexpr double kSmallest = 1.0 / (1 << 20);  // some 36 steps in a row did not fit
  const std::int64_t most = config_.run.max_skipped_steps;
  if (scaler.on() && progress_.loss_scale < kSmallest) {
    return failed(gradients_not_finite_at_any_scale(), world_.rank != 0);  // every rank has it
  }
  if (!scaler.on() && most > 0 && skipped_in_a_row_ >= most) {
    return failed(gradients_not_finite(where, skipped_in_a_row_, progress_.global_step + 1), world_.rank != 0);
  }
  return std::nullopt;
}

Loop::Stop Loop::after_step(const Totals& totals) {
  steps_done_ += 1;
  progress_.global_step += 1;
  progress_.step_in_epoch += 1;
  progress_.sample_position = training_.data.train_sampler->position_after(progress_.step_in_epoch - first_step_);
  progress_.epoch_totals += totals.average;
  progress_.unrecorded += totals.average;
  observer_.step_done(progress_, totals.average, optim::learning_rate(training_.schedule, progress_.global_step - 1));
  if (!std::isfinite(totals.average.loss_sum)) {
    return failed(
        loss_not_finite(totals.average.loss(), progress_.global_step, steps_done_ == 1 && progress_.global_step > 1));
  }
  tell_saves();
  others_saving_ = totals.saving > 0;
  if (totals.gave_up > 0) {
    const Error error = checkpoints_.writer().last_failure();
    tell_saves();
    return failed(error, world_.rank != 0);  // every rank has it
  }
  if (totals.evicted > 0) {
    return failed(taken_over(config_.checkpoint.load.folder), world_.rank != 0);  // every rank has it
  }
  if (ends_in_mid_epoch()) {
    progress_.validation_due = config_.run.valid_epochs > 0 ? 1 : 0;
  }
  // Where the run's last step ends an epoch too, only its end is left: after_epoch(), whose validation hears a stop.
  if (totals.stopping > 0 && (!at_last_step() || ends_in_mid_epoch())) {
    return interrupted();
  }
  if (ends_in_mid_epoch()) {
    const Stop stop = save_and_validate(true, true);
    return stop ? stop : Outcome{};
  }
  return checkpoints_.due_after_step(progress_.global_step) ? save(Urgency::MaySkip) : std::nullopt;
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
  DataPipeline& data = training_.data;
  data.valid_sampler->set_epoch(0, 0);
  if (const Result<void> started = data.valid_loader->start(*data.valid_sampler); !started) {
    return failed(started.error());
  }
  if (const Result<void> synchronised = replica_.sync_buffers(); !synchronised) {
    return failed(synchronised.error(), true);
  }
  training_.model->eval();
  const double begun = seconds_now();
  Totals mine;
  while (true) {
    Result<std::optional<data::Batch>> batch = data.valid_loader->next();
    if (!batch) {
      return failed(batch.error());
    }
    if (!batch->has_value()) {  // after equally many batches on every rank: the sampler pads
      break;
    }
    if (Stop stop = count_validation_batch(**batch, mine.average)) {
      return stop;
    }
    const Result<bool> stopping = any_asked_to_stop();
    if (!stopping) {
      return failed(stopping.error(), true);
    }
    if (*stopping) {
      return interrupted();
    }
  }
  const Result<Totals> totals = over_ranks(mine, world_.process_group, world_.device);
  if (!totals) {
    return failed(totals.error(), true);
  }
  if (!std::isfinite(totals->average.loss_sum)) {
    observer_.validated(progress_, totals->average, seconds_now() - begun);
    return failed(validation_not_finite(totals->average.loss(), progress_.global_step),
                  world_.rank != 0);  // every rank has it
  }
  note_validation(totals->average, seconds_now() - begun);
  return std::nullopt;
}

Loop::Stop Loop::count_validation_batch(const data::Batch& read, metrics::RunningAverage& sums) {
  observer_.bad_samples(read.bad);
  return catch_training_errors(world_, [&] {
    const torch::NoGradGuard no_grad;
    const data::Batch batch = placed(read, world_.device);
    const at::Tensor outputs = replica_.evaluate([&] { return model_outputs(batch); });
    sums += count(outputs, batch.labels, losses_of(outputs, batch.labels, 0), batch.counted);
  });
}

void Loop::note_validation(const metrics::RunningAverage& sums, double seconds) {
  observer_.validated(progress_, sums, seconds);
  const double metric = sums.top1();
  among_best_ = checkpoint::format::note_validation(progress_.best, {progress_.global_step, metric},
                                                    config_.checkpoint.keep_best);
  if (progress_.best_step < 0 || metric > progress_.best_metric) {
    progress_.best_metric = metric;
    progress_.best_step = progress_.global_step;
  }
}

Result<bool> Loop::any_asked_to_stop() {
  Totals mine;
  mine.stopping = asked_to_stop() ? 1 : 0;
  const Result<Totals> totals = over_ranks(mine, world_.process_group, world_.device);
  return totals ? Result<bool>(totals->stopping > 0) : Result<bool>(totals.error());
}

Loop::Stop Loop::interrupted() {
  if (Stop stop = save(Urgency::Final)) {
    return stop;
  }
  return Outcome{Ending::Interrupted, std::nullopt};
}

Loop::Stop Loop::save(Urgency urgency) {
  const Result<bool> saved = checkpoints_.save(progress_, urgency, others_saving_);
  tell_saves();
  if (saved) {
    if (!*saved) {
      observer_.save_skipped(progress_.global_step);
    }
    return std::nullopt;
  }
  // Every rank has this error, and rank 0 tells it.
  const bool lost_peer = saved.error().exit_code == ExitCode::Unavailable;
  return failed(saved.error(), lost_peer || world_.rank != 0);
}

void Loop::tell_saves() {
  for (const SaveReport& report : checkpoints_.writer().take_reports()) {
    observer_.saved(report);
  }
}

bool Loop::asked_to_stop() {
  const double now = wall_seconds_now();
  if (stop_signal() == 0 && limit_.near(now)) {
    observer_.note("the job's time limit is near (--save-before-limit)");
  }
  return stop_signal() != 0 || limit_.near(now);
}

bool Loop::validation_due(bool last) const {
  return config_.run.valid_epochs > 0 && (last || progress_.epoch % config_.run.valid_epochs == 0);
}

bool Loop::at_last_step() const { return config_.run.max_steps > 0 && progress_.global_step >= config_.run.max_steps; }

bool Loop::ends_in_mid_epoch() const { return at_last_step() && progress_.step_in_epoch < steps_in_epoch_; }

}  // namespace rollcall::train
