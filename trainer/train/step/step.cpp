#include "trainer/train/step/step.h"

#include <ATen/record_function.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "trainer/data/sampling/random.h"
#include "trainer/precision/loss_scaler.h"
#include "trainer/torch.h"
#include "trainer/train/checkpoints/checkpoints.h"
#include "trainer/train/process.h"
#include "trainer/train/step/drop.h"
#include "trainer/train/step/loss.h"

namespace rollcall::train {
namespace {

/// Implements the part weights-at-once of --own-kernels. Sharded weights are whole only while their layer computes.
precision::LoweredWeights lowered_weights(const Run& run) {
  const device::Device& device = run.context.device;
  const std::optional<at::ScalarType> type = run.config.model.compute_type;
  const bool lowers = device.kernels() != nullptr && device.kernel_parts().weights_at_once && type.has_value();
  return lowers && !run.training.replica->is_sharded() ? precision::LoweredWeights(*run.training.model, *type)
                                                       : precision::LoweredWeights();
}

}  // namespace

Steps::Steps(const Run& run)
    : run_(run),
      config_(run.config),
      training_(run.training),
      replica_(*run.training.replica),
      drop_rates_(run.training.model->drop_rates()),
      batches_(virtual_ranks(run.config, run.context).mine * run.config.grad_accumulation()),
      lowered_(lowered_weights(run)) {
  if (run.captures) {
    graph_.emplace(run_.context, static_cast<std::size_t>(batches_), config_.data.datasets.augment.mixes_batches());
  }
  const checkpoint::Progress& progress = run.progress;
  training_.loss_scaler.set_state({.scale = progress.loss_scale, .good_steps = progress.loss_scale_good_steps});
  const bool computes_there = run_.context.device.type() != at::kCPU && !config_.parallel.replica.sharding.cpu_offload;
  if (computes_there && run.agent == nullptr) {
    training_.loss_scaler.move_to(run_.context.device.device());
    on_device_.emplace(*training_.optimizer);
  }
}

std::optional<Outcome> Steps::take(const std::function<Requests()>& asked) {
  Step& step = under_way_.emplace_back();
  step.begin = seconds_now();
  std::optional<Error> unread;
  std::optional<Outcome> stop = catch_training_errors(run_.context, [&] {
    begin(step);
    for (std::int64_t done = 0; done < batches_; ++done) {
      const double waits = seconds_now();
      const Result<data::Batch> batch = next_batch();
      if (!batch) {
        unread = batch.error();
        return;
      }
      step.waited += seconds_now() - waits;
      run_.observer.bad_samples(batch->bad);
      count_bad_samples(*batch, step.totals.average);
      add(*batch, done, step);
    }
    finish_gradients(step);
    if (!step.captured) {  // a graph includes the update, and the forward pass that changes them
      average_statistics(step);
    }
    send_totals(step, asked());
    is_async() ? update_on_device(step) : update_by_host(step);
    if (step.captured) {
      average_statistics(step);
    }
    average_weights(step);
  });
  if (stop || unread) {
    return unread ? failed(*unread) : stop;
  }
  step.times.elapsed = seconds_now() - step.begin;
  count_step();
  return std::nullopt;
}

std::int64_t Steps::schedule_step() const {
  const checkpoint::Progress& progress = run_.progress;
  if (optim::ends_with_training(config_.optim.schedule) && config_.run.max_steps > 0 &&
      training_.schedule.total_steps == config_.run.max_steps) {
    return progress.global_step;
  }
  return progress.epoch * training_.steps_of_epoch +
         progress.sample_position / (progress.world_size * progress.batch_size);
}

void Steps::begin(Step& step) {
  step.numbers = {.step = run_.progress.global_step + 1,
                  .step_in_epoch = run_.progress.step_in_epoch + 1,
                  .learning_rate = optim::learning_rate(training_.schedule, schedule_step())};
  optim::set_learning_rate(*training_.optimizer, step.numbers.learning_rate, training_.rate_factors);
  if (run_.agent != nullptr) {
    buffers_before_ = parallel::copies_of(statistics_of(*training_.model, training_.average));
  }
  step.captured = graph_ && graph_->is_ready();
  if (!step.captured) {  // a graph includes this
    begin_gradients();
  }
}

void Steps::begin_gradients() {
  replica_.zero_grad();
  lowered_.refresh();
}

Result<data::Batch> Steps::next_batch() {
  RECORD_USER_SCOPE("data: wait for a batch");
  ASSIGN_OR_RETURN(std::optional<data::Batch> batch, training_.data.train_loader->next());
  if (!batch.has_value()) {
    return fail("data", "", "an epoch has fewer batches than its steps need", "reporting this", ErrorKind::Internal);
  }
  return *std::move(batch);
}

/// Seeds what draws random numbers in the model, such as dropout, at the first batch of a virtual rank: a step that is
/// repeated draws the same, in whichever process.
void Steps::seed(std::int64_t step, std::int64_t done) const {
  const std::int64_t accumulation = config_.grad_accumulation();
  if (done % accumulation == 0) {
    const std::int64_t rank = virtual_ranks(config_, run_.context).first + done / accumulation;
    data::Random random(config_.run.seed, data::Purpose::Model, static_cast<std::uint64_t>(rank),
                        static_cast<std::uint64_t>(step));
    run_.context.device.seed(random.bits());
  }
}

/// Adds batch `done` of the step, counted from 0. A graph computes all batches, and updates, once all have arrived.
void Steps::add(const data::Batch& read, std::int64_t done, Step& step) {
  const data::StageTimes& times = read.times;
  step.loading += std::chrono::duration<double>(times.fetch + times.decode + times.augment).count();
  run_.observer.batch_read(step.numbers.step, read.images, config_.data.datasets.normalisation);
  seed(step.numbers.step, done);
  const double begun = seconds_now();
  data::Batch batch = training_.data.prefetcher->to_device(read);
  batch.kept =
      draw_kept(drop_rates_, *training_.data.train_sampler, read.step, batch.images.size(0), run_.context.device);
  if (step.captured) {
    graph_->keep(static_cast<std::size_t>(done), batch);
    step.times.forward += seconds_now() - begun;
    return;
  }
  step.times.forward += seconds_now() - begun;
  const at::Tensor counted = forward_backward(batch, done, step.times);
  step.counted = step.counted.defined() ? step.counted + counted : counted;
}

/// Runs batch `done`, of which the host may know only the tensors; returns its counts.
at::Tensor Steps::forward_backward(const data::Batch& batch, std::int64_t done, metrics::StepTimes& times) {
  replica_.set_gradient_sync(done + 1 == batches_);
  const double begun = seconds_now();
  at::Tensor outputs;
  at::Tensor losses;
  const at::Tensor loss = replica_.forward([&] {
    RECORD_USER_SCOPE("phase: forward");
    const precision::LoweredWeights::Use lowered(lowered_);
    outputs = outputs_of(training_, config_, run_.context, batch.images, batch.kept);
    losses = losses_of(outputs, batch, config_.optim.loss, training_.class_weights);
    return losses.mean();
  });
  const double forwarded = seconds_now();
  // The gradient of the mean over the whole step, of one virtual rank; dividing by 1 changes nothing.
  {
    RECORD_USER_SCOPE("phase: backward");
    training_.loss_scaler.scale(loss / config_.grad_accumulation()).backward();
  }
  times.forward += forwarded - begun;
  times.backward += seconds_now() - forwarded;
  return count(outputs, batch.labels, losses, batch.counted);
}

/// Runs all batches of a step, which are on the device, as a graph.
at::Tensor Steps::forward_backward_of_all(const std::vector<data::Batch>& batches) {
  metrics::StepTimes unknown;  // times of captured work are unknown
  begin_gradients();
  at::Tensor counted = forward_backward(batches.front(), 0, unknown);
  for (std::int64_t done = 1; done < batches_; ++done) {
    counted = counted + forward_backward(batches[static_cast<std::size_t>(done)], done, unknown);
  }
  replica_.finish_gradients();
  return counted;
}

/// Waits for the exchange between ranks: the gradients are then those of all ranks.
void Steps::finish_gradients(Step& step) {
  if (step.captured) {
    return;
  }
  const double begun = seconds_now();
  replica_.finish_gradients();
  step.times.backward += seconds_now() - begun;
  if (graph_) {
    graph_->note_warm_up_step(seconds_now());
  }
}

/// Starts the copy of this rank's host values to the training's device.
void Steps::send_totals(Step& step, const Requests& asked) {
  CheckpointWriter& writer = run_.checkpoints.writer();
  step.totals.stopping = asked.to_stop ? 1 : 0;
  step.totals.regrouping = asked.to_regroup ? 1 : 0;
  step.totals.saving = writer.under_way() ? 1 : 0;
  step.totals.gave_up = writer.gave_up() ? 1 : 0;
  step.totals.evicted = run_.checkpoints.lost_folder() ? 1 : 0;
  step.totals.waited = step.waited;
  step.times.data = step.waited;
  step.times.steps = 1;
  step.of_ranks = SumsOfRanks(step.totals, run_.observer.rank_numbers(step.numbers.step), run_.context.process_group,
                              run_.context.device);
}

/// Updates the parameters if the totals of the ranks allow it.
void Steps::update_by_host(Step& step) {
  const bool finite = gradients_are_finite();
  const double done = seconds_now();
  const at::Tensor non_finite = torch::full({1}, finite ? 0 : 1, run_.context.device.options());
  step.of_ranks.to_host(sum_over_ranks(step.counted, non_finite, step.of_ranks.on_device()));
  const bool all_finite = step.of_ranks.read(run_.context.longest_wait()).totals.non_finite == 0;
  const double exchanged = seconds_now();
  step.times.wait += exchanged - done;
  is_ahead_ = true;
  if (all_finite) {
    at::Tensor norm;
    clip(norm);
    step.numbers.gradient_norm = norm.defined() ? norm.item<double>() : step.numbers.gradient_norm;
    run_.checkpoints.writer().before_update();
    {
      RECORD_USER_SCOPE("compute: optimizer");
      training_.optimizer->step();
    }
    run_.observer.updated(step.numbers.step, replica_);
  }
  training_.loss_scaler.update();
  step.times.optimizer += seconds_now() - exchanged;
}

/// Does the same without reading anything on the host. A graph also computes the gradients.
void Steps::update_on_device(Step& step) {
  const double begun = seconds_now();
  is_ahead_ = true;
  run_.checkpoints.writer().before_update();
  on_device_->begin();
  const at::Tensor& from_host = step.of_ranks.on_device();
  step.of_ranks.to_host(step.captured
                            ? graph_->run(from_host,
                                          [this](const std::vector<data::Batch>& batches, const at::Tensor& kept) {
                                            return enqueue_update(forward_backward_of_all(batches), kept);
                                          })
                            : enqueue_update(step.counted, from_host));
  on_device_->count_step();
  run_.observer.updated(step.numbers.step, replica_);
  step.times.optimizer += seconds_now() - begun;
}

/// Enqueues the update on the device; returns the values for the host.
at::Tensor Steps::enqueue_update(const at::Tensor& counted, const at::Tensor& from_host) {
  precision::LossScaler& scaler = training_.loss_scaler;
  const at::Tensor sums = sum_over_ranks(counted, scaler.unscale_on_device(*training_.optimizer), from_host);
  const at::Tensor non_finite = any_non_finite(sums);
  at::Tensor norm = torch::full({1}, StepNumbers{}.gradient_norm, run_.context.device.options());
  clip(norm);
  {
    RECORD_USER_SCOPE("compute: optimizer");
    on_device_->enqueue(non_finite);
  }
  scaler.update(non_finite);
  return with_extra(sums, {norm, scaler.factor(), scaler.good_steps()});
}

/// Returns the sums over all ranks, on the training's device.
at::Tensor Steps::sum_over_ranks(const at::Tensor& counted, const at::Tensor& non_finite, const at::Tensor& from_host) {
  RECORD_USER_SCOPE("phase: totals of all ranks");
  return add_up(counted, non_finite, from_host, run_.context.process_group);
}

/// Checks the gradients of this rank and removes the loss scale from them.
bool Steps::gradients_are_finite() {
  precision::LossScaler& scaler = training_.loss_scaler;
  return scaler.on() ? scaler.unscale(*training_.optimizer, run_.context.process_group)
                     : precision::all_finite(precision::gradients_of(*training_.optimizer));
}

void Steps::clip(at::Tensor& norm) {
  if (config_.optim.clip_grad_norm > 0) {
    RECORD_USER_SCOPE("compute: clip gradients");
    norm = replica_.clip_grad_norm(config_.optim.clip_grad_norm);
  }
}

/// Every --ema-steps-th step joins. During warm-up, and in the first update after it, the average is the weights, as in
/// torchvision's references.
std::optional<double> Steps::average_decay(const Step& step) const {
  const std::int64_t every = config_.optim.ema_steps;
  if (!training_.average || step.numbers.step % every != 0) {
    return std::nullopt;
  }
  const bool begins = schedule_step() - every < training_.schedule.warmup_steps;
  return begins ? 0 : config_.optim.ema_decay;
}

/// Before any rank can finish the step. Where a rank is lost, the statistics are those of the first of the others,
/// which may not have finished it, and the weights those of one that has.
void Steps::average_statistics(const Step& step) {
  if (const std::optional<double> decay = average_decay(step)) {
    run_.checkpoints.writer().before_update();
    training_.average->update_buffers(*decay);
  }
}

void Steps::average_weights(const Step& step) {
  if (const std::optional<double> decay = average_decay(step)) {
    RECORD_USER_SCOPE("compute: average of the weights");
    training_.average->update_parameters(*decay);
  }
}

/// Counts a step whose update was done or enqueued in the run's progress.
void Steps::count_step() {
  checkpoint::Progress& progress = run_.progress;
  buffers_before_.clear();
  progress.global_step += 1;
  progress.step_in_epoch += 1;
  progress.sample_position = training_.data.train_sampler->position_after(progress.step_in_epoch - first_step_);
  is_ahead_ = false;
}

std::optional<Outcome> Steps::collect(Step& collected) {
  const double begun = seconds_now();
  Step& step = under_way_.front();
  auto stop = catch_training_errors(run_.context, [&] {
    const SumsOfRanks::Read read = step.of_ranks.read(run_.context.longest_wait());
    step.totals = read.totals;
    run_.observer.rank_times().collect(step.numbers.step, read.more);
    precision::LossScale scale;
    if (is_async()) {
      step.numbers.gradient_norm =
          read.totals.non_finite == 0 ? read.extra[0] : std::numeric_limits<double>::quiet_NaN();
      scale = {.scale = read.extra[1], .good_steps = static_cast<std::int64_t>(read.extra[2])};
    } else {
      scale = training_.loss_scaler.state();
    }
    if (training_.loss_scaler.on()) {
      run_.progress.loss_scale = step.numbers.loss_scale = scale.scale;
      run_.progress.loss_scale_good_steps = scale.good_steps;
    }
    after(step);
  });
  Step& last = under_way_.back();  // this time of the host belongs to the last step
  last.times.wait += seconds_now() - begun;
  last.times.elapsed = seconds_now() - last.begin;
  collected = std::move(step);
  under_way_.pop_front();
  return stop;
}

void Steps::after(Step& step) {
  if (step.totals.non_finite == 0) {
    skipped_in_a_row_ = 0;
    return;
  }
  if (on_device_) {
    on_device_->uncount_step();
  }
  if (!std::isfinite(step.totals.average.loss_sum)) {
    return;  // this ends the run
  }
  const bool scaled = training_.loss_scaler.on();
  run_.progress.skipped_steps += 1;
  skipped_in_a_row_ += 1;
  // On a device the gradients are those of the next step by now.
  const std::string where =
      is_async() ? "on the device" : where_text(precision::first_gradient_not_finite(replica_.named_parameters()));
  run_.observer.skipped_step(step.numbers.step, run_.progress, scaled, where);
  constexpr double kSmallest = 1.0 / (1 << 20);  // about 36 steps in a row overflowed
  const std::int64_t most = config_.run.max_skipped_steps;
  const bool too_small = scaled && run_.progress.loss_scale < kSmallest;
  if (too_small) {
    step.gives_up = [](bool /*has_checkpoint*/) { return gradients_not_finite_at_any_scale(); };
  } else if (!scaled && most > 0 && skipped_in_a_row_ >= most) {
    step.gives_up = [=, in_a_row = skipped_in_a_row_, number = step.numbers.step](bool has_checkpoint) {
      return gradients_not_finite(where, in_a_row, number, has_checkpoint);
    };
  }
}

}  // namespace rollcall::train
