#include "trainer/train/training_step.h"

#include <ATen/record_function.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "trainer/precision/loss_scaler.h"
#include "trainer/torch.h"
#include "trainer/train/process.h"

namespace rollcall::train {

Accumulation::Accumulation(const config::TrainConfig& config, const World& world, Training& training,
                           Observer& observer, bool keeps_buffers, bool captures)
    : config_(config),
      world_(world),
      training_(training),
      replica_(*training.replica),
      observer_(observer),
      keeps_buffers_(keeps_buffers),
      batches_(virtual_ranks(config, world).mine * config.grad_accumulation()) {
  if (captures) {
    graph_.emplace(world, static_cast<std::size_t>(batches_), config.data.datasets.augment.mixes_batches());
  }
}

void Accumulation::begin() {
  if (keeps_buffers_) {
    buffers_before_ = parallel::copies_of(training_.model->buffers());
  }
  if (!is_graph_ready()) {  // of which it is a part
    replica_.zero_grad();
  }
}

void Accumulation::add(const data::Batch& read, std::int64_t done, std::int64_t step, StepSums& sums) {
  const data::StageTimes& times = read.times;
  sums.loading += std::chrono::duration<double>(times.fetch + times.decode + times.augment).count();
  observer_.batch_read(step, read.images);
  const double begun = seconds_now();
  const data::Batch batch = training_.data.copies->place(read);
  if (is_graph_ready()) {
    graph_->keep(static_cast<std::size_t>(done), batch);
    if (done + 1 == batches_) {
      sums.counted = graph_->compute([this](const std::vector<data::Batch>& batches) { return compute_all(batches); });
      sums.captured = true;
    }
    sums.times.forward += seconds_now() - begun;
    return;
  }
  sums.times.forward += seconds_now() - begun;
  const at::Tensor counted = compute(batch, done, sums.times);
  sums.counted = sums.counted.defined() ? sums.counted + counted : counted;
}

at::Tensor Accumulation::compute_all(const std::vector<data::Batch>& batches) {
  metrics::StepTimes unknown;  // of the device's work, which is only captured
  replica_.zero_grad();
  at::Tensor counted = compute(batches.front(), 0, unknown);
  for (std::int64_t done = 1; done < batches_; ++done) {
    counted = counted + compute(batches[static_cast<std::size_t>(done)], done, unknown);
  }
  replica_.finish_gradients();
  return counted;
}

at::Tensor Accumulation::compute(const data::Batch& batch, std::int64_t done, metrics::StepTimes& times) {
  replica_.set_gradient_sync(done + 1 == batches_);
  const double begun = seconds_now();
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
  times.forward += forwarded - begun;
  times.backward += seconds_now() - forwarded;
  return count(outputs, batch.labels, losses, batch.counted);
}

void Accumulation::finish(StepSums& sums) {
  if (is_graph_ready()) {
    return;
  }
  const double begun = seconds_now();
  replica_.finish_gradients();
  sums.times.backward += seconds_now() - begun;
  if (graph_) {
    graph_->step_was_done_before(seconds_now());
  }
}

namespace {

/// Whether the optimizer's parameters are where the training computes, and that is a device.
bool is_on_device(const config::TrainConfig& config, const World& world) {
  return world.device.type() != at::kCPU && !config.parallel.replica.sharding.cpu_offload;
}

}  // namespace

Update::Update(const config::TrainConfig& config, const World& world, Training& training, CheckpointWriter& writer,
               Observer& observer, checkpoint::Progress& progress, bool at_once)
    : config_(config),
      world_(world),
      training_(training),
      writer_(writer),
      observer_(observer),
      progress_(progress),
      graph_(world) {
  training_.loss_scaler.set_state({.scale = progress_.loss_scale, .good_steps = progress_.loss_scale_good_steps});
  if (is_on_device(config, world) && !at_once) {
    training_.loss_scaler.move_to(world.device.device());
    on_device_.emplace(*training_.optimizer);
  }
}

std::optional<Outcome> Update::apply(StepUnderWay& step) { return lags() ? enqueue(step) : decide(step); }

void Update::tell(StepUnderWay& step) {
  step.of_ranks =
      SumsOfRanks(step.sums.totals, observer_.tell_of_rank(step.numbers.step), world_.process_group, world_.device);
}

at::Tensor Update::exchange(const at::Tensor& counted, const at::Tensor& non_finite, const at::Tensor& of_host) {
  RECORD_USER_SCOPE("phase: totals of all ranks");
  return add_up(counted, non_finite, of_host, world_.process_group);
}

void Update::clip(at::Tensor& norm) {
  if (config_.optim.clip_grad_norm > 0) {
    RECORD_USER_SCOPE("compute: clip gradients");
    norm = training_.replica->clip_grad_norm(config_.optim.clip_grad_norm);
  }
}

bool Update::gradients_are_finite() {
  precision::LossScaler& scaler = training_.loss_scaler;
  return scaler.on() ? scaler.unscale(*training_.optimizer, world_.process_group)
                     : precision::all_finite(precision::gradients_of(*training_.optimizer));
}

std::optional<Outcome> Update::decide(StepUnderWay& step) {
  bool finite = false;
  if (auto stop = catch_training_errors(world_, [&] { finite = gradients_are_finite(); })) {
    return stop;
  }
  const double done = seconds_now();
  bool all_finite = false;
  if (auto stop = catch_training_errors(world_, [&] {
        tell(step);
        const at::Tensor non_finite = torch::full({1}, finite ? 0 : 1, world_.device.options());
        step.of_ranks.send_back(exchange(step.sums.counted, non_finite, step.of_ranks.of_host()));
        all_finite = step.of_ranks.read(world_.longest_wait()).totals.non_finite == 0;
      })) {
    return stop;
  }
  const double told = seconds_now();
  step.sums.times.wait += told - done;
  is_ahead_ = true;
  auto stop = catch_training_errors(world_, [&] {
    if (all_finite) {
      at::Tensor norm;
      clip(norm);
      step.numbers.gradient_norm = norm.defined() ? norm.item<double>() : step.numbers.gradient_norm;
      writer_.before_update();
      {
        RECORD_USER_SCOPE("compute: optimizer");
        training_.optimizer->step();
      }
      observer_.updated(step.numbers.step, *training_.replica);
    }
    training_.loss_scaler.update();
  });
  step.sums.times.optimizer += seconds_now() - told;
  return stop;
}

std::optional<Outcome> Update::enqueue(StepUnderWay& step) {
  const double begun = seconds_now();
  is_ahead_ = true;
  auto stop = catch_training_errors(world_, [&] {
    tell(step);
    writer_.before_update();
    on_device_->begin();
    const at::Tensor& of_host = step.of_ranks.of_host();
    step.of_ranks.send_back(step.sums.captured ? change_by_graph(step.sums.counted, of_host)
                                               : change(step.sums.counted, of_host));
    on_device_->was_given();
    observer_.updated(step.numbers.step, *training_.replica);
  });
  step.sums.times.optimizer += seconds_now() - begun;
  return stop;
}

at::Tensor Update::change(const at::Tensor& counted, const at::Tensor& of_host) {
  precision::LossScaler& scaler = training_.loss_scaler;
  const at::Tensor sums = exchange(counted, scaler.unscale_there(*training_.optimizer), of_host);
  const at::Tensor non_finite = any_non_finite(sums);
  at::Tensor norm = torch::full({1}, StepNumbers{}.gradient_norm, world_.device.options());
  clip(norm);
  {
    RECORD_USER_SCOPE("compute: optimizer");
    on_device_->enqueue(non_finite);
  }
  scaler.update(non_finite);
  return with_extra(sums, {norm, scaler.factor(), scaler.good_steps()});
}

at::Tensor Update::change_by_graph(const at::Tensor& counted, const at::Tensor& of_host) {
  RECORD_USER_SCOPE("phase: graph of the optimizer's step");
  if (!told_.defined()) {
    told_ = at::empty_like(of_host);
  }
  told_.copy_(of_host);
  graph_.enqueue([&] { back_ = change(counted, told_); });
  return back_;
}

std::optional<Outcome> Update::hear(StepUnderWay& step, Totals& totals) {
  SumsOfRanks::Read read;
  if (auto stop = catch_training_errors(world_, [&] { read = step.of_ranks.read(world_.longest_wait()); })) {
    return stop;
  }
  totals = read.totals;
  observer_.rank_times().hear(step.numbers.step, read.more);
  precision::LossScale scale;
  if (lags()) {
    step.numbers.gradient_norm = totals.non_finite == 0 ? read.extra[0] : std::numeric_limits<double>::quiet_NaN();
    scale = {.scale = read.extra[1], .good_steps = static_cast<std::int64_t>(read.extra[2])};
  } else {
    scale = training_.loss_scaler.state();
  }
  if (training_.loss_scaler.on()) {
    progress_.loss_scale = step.numbers.loss_scale = scale.scale;
    progress_.loss_scale_good_steps = scale.good_steps;
  }
  std::optional<Outcome> end;
  const auto stop = catch_training_errors(world_, [&] { end = after(step, totals); });
  return stop ? stop : end;
}

std::optional<Outcome> Update::after(const StepUnderWay& step, const Totals& totals) {
  if (totals.non_finite == 0) {
    skipped_in_a_row_ = 0;
    return std::nullopt;
  }
  if (on_device_) {
    on_device_->left_out();
  }
  if (!std::isfinite(totals.average.loss_sum)) {
    return std::nullopt;  // what Loop::hear() tells
  }
  const bool scaled = training_.loss_scaler.on();
  progress_.skipped_steps += 1;
  skipped_in_a_row_ += 1;
  // On a device the gradients are those of the step behind it by now.
  const std::string where =
      lags() ? "on the device" : place_of(precision::first_gradient_not_finite(training_.replica->named_parameters()));
  observer_.skipped_step(step.numbers.step, progress_, scaled, where);
  constexpr double kSmallest = 1.0 / (1 << 20);  // some 36 steps in a row did not fit
  const std::int64_t most = config_.run.max_skipped_steps;
  if (scaled && progress_.loss_scale < kSmallest) {
    writer_.finish_save();  // every rank comes here, and none is to take it away from the others by its end
    return failed(gradients_not_finite_at_any_scale(), world_.rank != 0);  // every rank has it
  }
  if (!scaled && most > 0 && skipped_in_a_row_ >= most) {
    writer_.finish_save();
    return failed(gradients_not_finite(where, skipped_in_a_row_, step.numbers.step), world_.rank != 0);
  }
  return std::nullopt;
}

}  // namespace rollcall::train
