#include "trainer/train/step/validation.h"

#include "trainer/train/checkpoints/checkpoints.h"
#include "trainer/train/observer/observer.h"
#include "trainer/train/step/loss.h"
#include "trainer/train/step/scores.h"
#include "trainer/train/step/totals.h"
#include "trainer/train/step/training.h"

namespace rollcall::train {
namespace {

/// Test-time augmentation of FFCV's ImageNet training (lr_tta): the mean of the outputs for each image and its mirror
/// image. FFCV adds them up, which has the same best classes.
at::Tensor validation_outputs(Training& training, const config::TrainConfig& config, const JobContext& context,
                              const at::Tensor& images) {
  const at::Tensor outputs = outputs_of(training, config, context, images);
  return config.run.valid_flip ? (outputs + outputs_of(training, config, context, images.flip(3))) / 2 : outputs;
}

std::optional<Outcome> count_batch(const data::Batch& read, const config::TrainConfig& config,
                                   const JobContext& context, Training& training, Totals& sums, at::Tensor& counted,
                                   Scores& scores) {
  count_bad_samples(read, sums.average);
  return catch_training_errors(context, [&] {
    const torch::NoGradGuard no_grad;
    const data::Batch batch = training.data.prefetcher->to_device(read);
    const at::Tensor outputs =
        training.replica->evaluate([&] { return validation_outputs(training, config, context, batch.images); });
    const at::Tensor losses = losses_of(outputs, batch.labels, config.optim.loss);
    const at::Tensor of_batch = count(outputs, batch.labels, losses, batch.counted);
    counted = counted.defined() ? counted + of_batch : of_batch;
    scores.add(outputs, batch);
  });
}

/// Returns the ending that any rank was asked for; nothing: continue. The hosts exchange it without waiting for a
/// device.
Result<std::optional<Ending>> ending_asked_for(const Requests& asked, const JobContext& context) {
  Totals mine;
  mine.stopping = asked.to_stop ? 1 : 0;
  mine.regrouping = asked.to_regroup ? 1 : 0;
  ASSIGN_OR_RETURN(const Totals totals,
                   over_ranks(mine, {}, context.process_group, device::Device(), context.longest_wait()));
  return totals.stopping > 0     ? std::optional(Ending::Interrupted)
         : totals.regrouping > 0 ? std::optional(Ending::Regrouped)
                                 : std::nullopt;
}

std::optional<Outcome> run_pass(const Run& run, const std::function<Requests()>& asked, metrics::Validation& found) {
  const JobContext& context = run.context;
  Training& training = run.training;
  DataPipeline& data = training.data;
  data.train_loader->stop();  // behind the last step of a run there may be batches, in memory that serves both
  data.valid_sampler->set_epoch(0, 0);
  if (const Result<void> started = data.valid_loader->start(*data.valid_sampler); !started) {
    return failed(started.error());
  }
  if (const Result<void> synchronised = training.replica->sync_buffers(); !synchronised) {
    return failed(synchronised.error());
  }
  training.model->eval();
  Totals mine;
  at::Tensor counted;
  Scores scores;
  while (true) {
    Result<std::optional<data::Batch>> batch = data.valid_loader->next();
    if (!batch) {
      return failed(batch.error());
    }
    if (!batch->has_value()) {  // after the same number of batches on every rank, because the sampler pads
      break;
    }
    run.observer.bad_samples((*batch)->bad);
    run.observer.measure_energy();
    if (auto stop = count_batch(**batch, run.config, context, training, mine, counted, scores)) {
      return stop;
    }
    const Result<std::optional<Ending>> ending = ending_asked_for(asked(), context);
    if (!ending) {
      return failed(ending.error());
    }
    if (*ending) {
      return Outcome{**ending, std::nullopt};
    }
  }
  const Result<Totals> totals =
      over_ranks(mine, counted, context.process_group, context.device, context.longest_wait());
  if (!totals) {
    return failed(totals.error());
  }
  found.sums = totals->average;
  if (!run.config.data.datasets.several_labels) {
    return std::nullopt;
  }
  return catch_training_errors(context, [&] { found.mean_average_precision = scores.mean_average_precision(context); });
}

}  // namespace

std::optional<Outcome> run_validation(const Run& run, const std::function<Requests()>& asked, Validated& found) {
  std::optional<Outcome> ended = run_pass(run, asked, found.model);
  std::optional<optim::WeightAverage>& average = run.training.average;
  if (ended || !average) {
    return ended;
  }
  const auto exchange = [&] {
    return catch_training_errors(run.context, [&] {
      run.checkpoints.writer().before_update();  // a save may still copy both
      average->exchange();
    });
  };
  if (auto failed = exchange()) {
    return failed;
  }
  ended = run_pass(run, asked, found.average.emplace());
  auto failed = exchange();
  return failed ? failed : ended;
}

}  // namespace rollcall::train
