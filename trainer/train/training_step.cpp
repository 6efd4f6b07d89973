#include "trainer/train/training_step.h"

#include <ATen/record_function.h>

#include <chrono>
#include <cmath>

#include "trainer/precision/loss_scaler.h"
#include "trainer/torch.h"
#include "trainer/train/process.h"

namespace rollcall::train {

Accumulation::Accumulation(const config::TrainConfig& config, const World& world, Training& training,
                           Observer& observer, bool keeps_buffers)
    : config_(config),
      world_(world),
      training_(training),
      replica_(*training.replica),
      observer_(observer),
      keeps_buffers_(keeps_buffers),
      batches_(virtual_ranks(config, world).mine * config.grad_accumulation()) {}

void Accumulation::begin() {
  if (keeps_buffers_) {
    buffers_before_ = parallel::copies_of(training_.model->buffers());
  }
  replica_.zero_grad();
}

void Accumulation::add(const data::Batch& read, std::int64_t done, std::int64_t step, StepSums& sums) {
  const data::StageTimes& times = read.times;
  sums.loading += std::chrono::duration<double>(times.fetch + times.decode + times.augment).count();
  observer_.batch_read(step, read.images);
  replica_.set_gradient_sync(done + 1 == batches_);
  const double begun = seconds_now();
  const data::Batch batch = training_.data.copies->place(read);
  at::Tensor outputs;
  at::Tensor losses;
  const at::Tensor loss = replica_.forward([&] {
    RECORD_USER_SCOPE("phase: forward");
    outputs = outputs_of(training_, config_, world_, batch.images);
    losses = losses_of(outputs, batch, config_.optim.label_smoothing);
    return losses.mean();
  });
  const double forwarded = seconds_now();
  // The gradient of the mean over the whole step, of one virtual rank; dividing by 1 changes nothing.
  {
    RECORD_USER_SCOPE("phase: backward");
    training_.loss_scaler.scale(loss / config_.grad_accumulation()).backward();
  }
  sums.times.forward += forwarded - begun;
  sums.times.backward += seconds_now() - forwarded;
  sums.totals.average += count(outputs, batch.labels, losses, batch.counted);
}

void Accumulation::finish(StepSums& sums) {
  const double begun = seconds_now();
  replica_.finish_gradients();
  sums.times.backward += seconds_now() - begun;
}

Update::Update(const config::TrainConfig& config, const World& world, Training& training, CheckpointWriter& writer,
               Observer& observer, checkpoint::Progress& progress)
    : config_(config), world_(world), training_(training), writer_(writer), observer_(observer), progress_(progress) {
  training_.loss_scaler.set_state({.scale = progress_.loss_scale, .good_steps = progress_.loss_scale_good_steps});
}

bool Update::gradients_are_finite() {
  precision::LossScaler& scaler = training_.loss_scaler;
  return scaler.on() ? scaler.unscale(*training_.optimizer, world_.process_group)
                     : precision::all_finite(precision::gradients_of(*training_.optimizer));
}

void Update::apply(bool finite, StepNumbers& numbers) {
  if (finite) {
    if (config_.optim.clip_grad_norm > 0) {
      RECORD_USER_SCOPE("compute: clip gradients");
      numbers.gradient_norm = training_.replica->clip_grad_norm(config_.optim.clip_grad_norm);
    }
    writer_.before_update();
    {
      RECORD_USER_SCOPE("compute: optimizer");
      training_.optimizer->step();
    }
    observer_.updated(progress_.global_step + 1, *training_.replica);
  }
  training_.loss_scaler.update();
}

std::optional<Outcome> Update::after(const Totals& totals, StepNumbers& numbers) {
  const precision::LossScaler& scaler = training_.loss_scaler;
  if (scaler.on()) {
    progress_.loss_scale = numbers.loss_scale = scaler.state().scale;
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
  const std::string where = precision::first_gradient_not_finite(training_.replica->named_parameters());
  observer_.skipped_step(progress_, scaler.on(), place_of(where));
  constexpr double kSmallest = 1.0 / (1 << 20);  // some 36 steps in a row did not fit
  const std::int64_t most = config_.run.max_skipped_steps;
  if (scaler.on() && progress_.loss_scale < kSmallest) {
    writer_.finish_save();  // every rank comes here, and none is to take it away from the others by its end
    return failed(gradients_not_finite_at_any_scale(), world_.rank != 0);  // every rank has it
  }
  if (!scaler.on() && most > 0 && skipped_in_a_row_ >= most) {
    writer_.finish_save();
    return failed(gradients_not_finite(where, skipped_in_a_row_, progress_.global_step + 1), world_.rank != 0);
  }
  return std::nullopt;
}

}  // namespace rollcall::train
