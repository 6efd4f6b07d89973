#include "trainer/train/update.h"

#include <ATen/record_function.h>
#include <cmath>

#include "trainer/precision/loss_scaler.h"
#include "trainer/torch.h"

namespace rollcall::train {

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
