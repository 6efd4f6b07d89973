#include "trainer/train/observer.h"

#include <fmt/format.h>
#include <unistd.h>
#include <cstdio>
#include <utility>

#include "trainer/metrics/human_numbers.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

constexpr std::int64_t kBadSamplesNamed = 10;

}  // namespace

Result<Observer> Observer::open(const config::RunConfig& config, std::uint32_t rank) {
  if (rank != 0) {
    return Observer(config, rank, metrics::ProgressStyle::None, std::nullopt);
  }
  Result<metrics::MetricsWriter> writer = metrics::MetricsWriter::open(config.folder + "/metrics.jsonl");
  if (!writer) {
    return writer.error();
  }
  return Observer(config, rank, config.progress, *std::move(writer));
}

Observer::Observer(const config::RunConfig& config, std::uint32_t rank, metrics::ProgressStyle style,
                   std::optional<metrics::MetricsWriter> writer)
    : rank_(rank),
      epochs_(config.epochs),
      log_steps_(config.log_steps),
      display_(std::make_unique<metrics::ProgressDisplay>(STDOUT_FILENO, style, log_steps_)),
      writer_(std::move(writer)) {}

void Observer::note(const std::string& line) { display_->message(line); }

void Observer::warn(const std::string& text) {
  if (rank_ == 0) {
    display_->finish();
    std::fprintf(stderr, "rollcall: warning: %s\n", text.c_str());
  }
}

void Observer::bad_samples(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    bad_samples_ += 1;
    if (bad_samples_ <= kBadSamplesNamed) {
      std::fprintf(stderr, "rollcall: warning: %s: skipped (rank %u%s)\n", name.c_str(), rank_,
                   bad_samples_ == kBadSamplesNamed ? "; further ones are only counted" : "");
    }
  }
}

void Observer::resumed(const checkpoint::Progress& progress) {
  if (writer_) {
    if (const Result<void> written = writer_->write_resume(progress.global_step); !written) {
      warn(written.error().message());
    }
  }
}

void Observer::begin_epoch(std::int64_t steps_in_epoch) {
  steps_in_epoch_ = steps_in_epoch;
  throughput_.restart();
}

void Observer::waited_for_data(const metrics::DataWait& wait) {
  run_wait_ += wait;
  window_wait_ += wait;
}

void Observer::step_done(checkpoint::Progress& progress, const metrics::RunningAverage& totals, double learning_rate) {
  throughput_.step_done(seconds_now(), totals.samples);
  metrics::ProgressState state;
  state.epoch = progress.epoch;
  state.epochs = epochs_;
  state.step = progress.step_in_epoch;
  state.steps_per_epoch = steps_in_epoch_;
  state.loss = totals.loss();
  state.top1 = progress.epoch_totals.top1();
  state.learning_rate = learning_rate;
  state.images_per_second = throughput_.images_per_second();
  state.remaining_seconds = metrics::remaining_seconds(
      metrics::steps_left(state) * progress.world_size * progress.batch_size, state.images_per_second);
  state.data_wait = run_wait_.fraction();
  display_->step_done(state, seconds_now());
  if (progress.global_step % log_steps_ == 0 || progress.step_in_epoch == steps_in_epoch_) {
    record({{"event", std::string("step")},
            {"step", progress.global_step},
            {"epoch", progress.epoch},
            {"loss", progress.unrecorded.loss()},
            {"top1", progress.unrecorded.top1()},
            {"top5", progress.unrecorded.top5()},
            {"samples", progress.unrecorded.samples},
            {"learning_rate", learning_rate},
            {"images_per_second", state.images_per_second.value_or(0)},
            {"data_wait_seconds", window_wait_.waited},
            {"data_wait_fraction", window_wait_.fraction()},
            {"loader_utilisation_of_rank_0", window_wait_.utilisation()}});
    progress.unrecorded = {};
    window_wait_ = {};
  }
}

void Observer::skipped_step(const checkpoint::Progress& progress, bool scaled, const std::string& where) {
  const std::string what = scaled ? fmt::format("in fp16: left out, loss scale now {}", progress.loss_scale)
                                  : fmt::format("({}): left out", where);
  note(fmt::format("step {}: gradients are not finite {} ({} steps left out so far)", progress.global_step + 1, what,
                   progress.skipped_steps));
  record({{"event", std::string("skipped_step")},
          {"step", progress.global_step + 1},
          {"loss_scale", progress.loss_scale},
          {"skipped_steps", progress.skipped_steps}});
}

void Observer::end_epoch(const checkpoint::Progress& progress) {
  record({{"event", std::string("epoch")},
          {"epoch", progress.epoch},
          {"step", progress.global_step},
          {"loss", progress.epoch_totals.loss()},
          {"top1", progress.epoch_totals.top1()},
          {"top5", progress.epoch_totals.top5()},
          {"samples", progress.epoch_totals.samples},
          {"bad_samples_of_rank_0", bad_samples_}});
}

void Observer::validated(const checkpoint::Progress& progress, const metrics::RunningAverage& totals) {
  const std::string when = progress.step_in_epoch == 0 ? fmt::format("epoch {}", progress.epoch)
                                                       : fmt::format("step {}", progress.global_step);
  note(fmt::format("validation after {}: loss {:.4f}  top-1 {:.2f} %  top-5 {:.2f} %  ({} images)", when, totals.loss(),
                   100 * totals.top1(), 100 * totals.top5(), totals.samples));
  record({{"event", std::string("validation")},
          {"epoch", progress.epoch},
          {"step", progress.global_step},
          {"loss", totals.loss()},
          {"top1", totals.top1()},
          {"top5", totals.top5()},
          {"samples", totals.samples}});
}

void Observer::saved(const SaveReport& report) {
  const auto& outcome = report.outcome;
  for (const std::string& failure : outcome.failures) {
    warn(fmt::format("the checkpoint of step {}: {}; tried again", outcome.step, failure));
  }
  if (!outcome.written) {
    const Error& error = outcome.written.error();
    warn(fmt::format("the checkpoint of step {} was not written: {}: {}; earlier ones are as they were; try {}",
                     outcome.step, error.value, error.reason, error.action));
  }
  record({{"event", std::string("checkpoint")},
          {"step", outcome.step},
          {"written", outcome.written.has_value()},
          {"tries", static_cast<std::int64_t>(outcome.failures.size()) + 1},
          {"stall_seconds", report.stall_seconds},
          {"durable_seconds", outcome.durable_seconds}});
}

void Observer::save_skipped(std::int64_t step) {
  note(
      fmt::format("no checkpoint of step {}: the one before it is still being written; save less often, or "
                  "--checkpoint-overlap=wait",
                  step));
  record({{"event", std::string("checkpoint_skipped")}, {"step", step}});
}

void Observer::finished(const checkpoint::Progress& progress, const std::string& ending, std::uint32_t cpus) {
  note(fmt::format("{} after step {}", ending, progress.global_step));
  const bool cpus_left = static_cast<int>(cpus) > run_wait_.workers;
  if (const std::string advice = metrics::input_bound_advice(run_wait_, cpus_left); !advice.empty()) {
    note(advice);
  }
  record({{"event", std::string("end")},
          {"ending", ending},
          {"step", progress.global_step},
          {"data_wait_fraction", run_wait_.fraction()}});
}

void Observer::record(metrics::Record record) {
  if (!writer_) {
    return;
  }
  if (const Result<void> written = writer_->write(record); !written) {
    if (records_lost_ == 0) {  // once is enough: training goes on without records until there is room again
      warn(written.error().message());
    }
    records_lost_ += 1;
  } else if (records_lost_ > 0) {
    warn(fmt::format("metrics.jsonl lacks {} records, which could not be written", std::exchange(records_lost_, 0)));
  }
}

}  // namespace rollcall::train
