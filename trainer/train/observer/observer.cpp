#include "trainer/train/observer/observer.h"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/train/observer/validation_record.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

constexpr std::int64_t kBadSamplesNamed = 10;
/// A record of N ranks is due every N / 16 seconds, so that for any number of ranks these records grow by less than 1
/// KB a second.
constexpr double kRanksASecond = 16;

/// Adds a number unless it is unknown.
void add_known(metrics::Record& record, const char* name, double number) {
  if (std::isfinite(number)) {
    record.emplace_back(name, number);
  }
}

void add_gpus(metrics::Record& record, const metrics::ProgressState& state) {
  constexpr double kMebibyte = 1 << 20;
  add_known(record, "gpu_load", state.gpus.load);
  add_known(record, "gpu_memory_mib", state.gpus.memory / kMebibyte);
  add_known(record, "gpu_memory_total_mib", state.gpus.memory_total / kMebibyte);
  add_known(record, "gpu_watts", state.gpus.watts);
  add_known(record, "images_per_joule", state.images_per_second.value_or(std::nan("")) / state.gpus.watts);
}

/// Returns the interval between two records of the ranks; 0: none.
double rank_seconds(const config::RunConfig& config, const JobContext& context) {
  return config.rank_seconds.value_or(std::max(10.0, context.world_size / kRanksASecond));
}

}  // namespace

Result<Observer> Observer::open(const config::RunConfig& config, const JobContext& context) {
  Observer observer(config, context);
  if (context.rank == 0) {
    ASSIGN_OR_RETURN(observer.records_.to, metrics::MetricsWriter::open(config.folder + "/metrics.jsonl"));
  }
  if (context.rank == 0 && config.tensorboard) {
    ASSIGN_OR_RETURN(observer.events_.to, TensorBoard::create(config));
  }
  return observer;
}

Observer::Observer(const config::RunConfig& config, const JobContext& context)
    : config_(config),
      context_(context),
      meters_(context),
      rank_times_(context.rank, context.world_size, context.device.type() != at::kCPU),
      ranks_recorded_(seconds_now()),
      display_(std::make_unique<metrics::ProgressDisplay>(
          STDOUT_FILENO, context.rank == 0 ? config.progress : metrics::ProgressStyle::None, config.log_steps,
          [] { return metrics::clock_text(wall_seconds_now()); })) {}

void Observer::warn(const std::string& text) {
  if (context_.rank == 0 && !text.empty()) {
    display_->finish();
    std::fprintf(stderr, "rollcall: warning: %s\n", printable(text).c_str());
    if (has_begun_) {  // otherwise it is in the record of the beginning
      record({{"event", std::string("warning")}, {"text", text}});
    }
  }
}

void Observer::bad_samples(const std::vector<Error>& errors) {
  for (const Error& error : errors) {
    bad_samples_ += 1;
    if (bad_samples_ <= kBadSamplesNamed) {
      std::fprintf(stderr, "rollcall: warning: %s: skipped (rank %u%s)\n", error.text().c_str(), context_.rank,
                   bad_samples_ == kBadSamplesNamed ? "; further ones are counted without a message" : "");
    }
  }
}

void Observer::begun(metrics::Record of_begin, const checkpoint::Progress& progress) {
  of_begin.emplace_back("energy_of", meters_.energy_of());
  record(std::move(of_begin));
  has_begun_ = true;
  if (progress.global_step > 0) {
    record({{"event", std::string("resume")}, {"global_step", progress.global_step}});
  }
}

void Observer::begin_epoch(std::int64_t steps_in_epoch) {
  last_.state.steps_per_epoch = steps_in_epoch;
  throughput_.restart();
}

void Observer::batch_read(std::int64_t step, const at::Tensor& images, const data::Normalisation& normalisation) {
  if (events_.to) {
    note_written(events_, events_.to->show_images(step, images, normalisation));
  }
}

void Observer::updated(std::int64_t step, const parallel::Replica& replica) {
  if (events_.to && events_.to->shows_tensors(step)) {
    note_written(events_, events_.to->show_tensors(step, replica.named_parameters(), replica.is_sharded()));
  }
}

void Observer::step_took(const metrics::StepTimes& times, const metrics::DataWait& wait) {
  for (Sums* const sums : {&run_, &window_}) {
    sums->wait += wait;
    sums->times += times;
  }
  const Usage usage = usage_of_this_process();
  rank_times_.add(times, {.peak_memory = usage.peak_memory,
                          .cpu_seconds = usage.cpu_seconds,
                          .loading = wait.loading,
                          .loader_seconds = wait.workers * times.elapsed});
  measure_energy();
  warn(meters_.add_gpu(rank_times_));
}

std::vector<double> Observer::rank_numbers(std::int64_t step) {
  if (const auto peak = device::memory_peak(context_.device)) {
    rank_times_.set_device_memory(
        {.allocated = static_cast<double>(peak->allocated), .reserved = static_cast<double>(peak->reserved)});
  }
  return rank_times_.contribution(step);
}

void Observer::report_recovery(const checkpoint::Progress& progress) {
  const Recovery done = std::exchange(recovery_, {});
  const double first_step = seconds_now() - done.noticed;
  note(fmt::format(
      "step {}: training continues on {} {:.3f} s after the change was noticed (groups released {:.3f}, agents agreed "
      "{:.3f}, ranks connected {:.3f}, state restored {:.3f}): {}",
      progress.global_step, counted(context_.world_size, "rank"), first_step, done.released, done.hold, done.joined,
      done.restored, done.cause));
  record({{"event", std::string("regrouped")},
          {"step", progress.global_step},
          {"ranks", std::int64_t{context_.world_size}},
          {"released_seconds", done.released},
          {"hold_seconds", done.hold},
          {"joined_seconds", done.joined},
          {"restored_seconds", done.restored},
          {"first_step_seconds", first_step},
          {"cause", done.cause}});
}

void Observer::step_done(checkpoint::Progress& progress, const metrics::RunningAverage& totals,
                         const StepNumbers& numbers) {
  if (!recovery_.cause.empty()) {
    report_recovery(progress);
  }
  throughput_.step_done(seconds_now(), totals.samples);
  run_totals_ += totals;
  metrics::ProgressState& state = last_.state;
  last_.numbers = numbers;
  state = {.epoch = progress.epoch,
           .epochs = config_.epochs,
           .step = numbers.step_in_epoch,
           .steps_per_epoch = state.steps_per_epoch,
           .steps_to_limit = config_.max_steps > 0 ? std::optional(config_.max_steps - numbers.step) : std::nullopt,
           .loss = totals.loss(),
           .top1 = progress.epoch_totals.top1(),
           .learning_rate = numbers.learning_rate,
           .images_per_second = throughput_.images_per_second(),
           .gpus = rank_times_.gpus(),
           .data_wait = run_.wait.fraction()};
  state.remaining_seconds = metrics::remaining_seconds(
      metrics::steps_left(state) * progress.world_size * progress.batch_size, state.images_per_second);
  if (run_.times.steps == 1) {
    note(fmt::format("first step of this start: step {} took {:.2f} s", numbers.step, run_.times.elapsed));
  }
  display_->step_done(state, seconds_now());
  if (numbers.step % config_.log_steps == 0 || numbers.step_in_epoch == state.steps_per_epoch) {
    record_steps(progress);
    if (seconds_now() - ranks_recorded_ >= rank_seconds(config_, context_)) {
      record_ranks(numbers.step);
    }
  }
}

void Observer::record_steps(checkpoint::Progress& progress) {
  const metrics::StepTimes& times = window_.times;
  if (times.steps == 0) {
    return;
  }
  metrics::Record of_step{{"event", std::string("step")},
                          {"step", last_.numbers.step},
                          {"epoch", last_.state.epoch},
                          {"loss", progress.unrecorded.loss()},
                          {"top1", progress.unrecorded.top1()},
                          {"top5", progress.unrecorded.top5()},
                          {"samples", progress.unrecorded.samples},
                          {"bad_samples", progress.unrecorded.bad()},
                          {"learning_rate", last_.numbers.learning_rate},
                          {"gradient_norm", last_.numbers.gradient_norm},
                          {"loss_scale", last_.numbers.loss_scale},
                          {"images_per_second", last_.state.images_per_second.value_or(0)},
                          {"data_wait_seconds", window_.wait.waited},
                          {"data_wait_fraction", window_.wait.fraction()},
                          {"loader_utilisation_of_rank_0", window_.wait.utilisation()},
                          {"steps", times.steps},
                          {"seconds", times.elapsed},
                          {"forward_seconds", times.forward},
                          {"backward_seconds", times.backward},
                          {"wait_seconds", times.wait},
                          {"optimizer_seconds", times.optimizer}};
  add_gpus(of_step, last_.state);
  record(std::move(of_step));
  progress.unrecorded = {};
  window_ = {};
}

void Observer::record_ranks(std::int64_t step) {
  ranks_recorded_ = seconds_now();
  if (auto of_ranks = rank_seconds(config_, context_) > 0 ? rank_times_.take_record(step) : std::nullopt) {
    record(*std::move(of_ranks));
  }
}

void Observer::skipped_step(std::int64_t step, const checkpoint::Progress& progress, bool scaled,
                            const std::string& where) {
  const std::string what = scaled ? fmt::format("in fp16: skipped, loss scale is now {}", progress.loss_scale)
                                  : fmt::format("({}): skipped", where);
  note(fmt::format("step {}: gradients are not finite {} (skipped steps so far: {})", step, what,
                   progress.skipped_steps));
  record({{"event", std::string("skipped_step")},
          {"step", step},
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
          {"bad_samples", progress.epoch_totals.bad()},
          {"unread_samples", progress.epoch_totals.unread}});
}

void Observer::validated(const checkpoint::Progress& progress, const metrics::Validation& model,
                         const std::optional<metrics::Validation>& average, double seconds) {
  warn(meters_.leave_out_gpu());
  const std::string when = progress.step_in_epoch == 0 ? fmt::format("epoch {}", progress.epoch)
                                                       : fmt::format("step {}", progress.global_step);
  note(fmt::format("validation after {}: {}  ({})", when, quality_text(model), counted(model.sums.samples, "image")));
  if (average) {
    note("  average of the weights: " + quality_text(*average));
  }
  record(validation_record(progress, model, average, seconds));
}

void Observer::copied(const SaveReport& report) {
  const auto& outcome = report.outcome;
  if (!outcome.written) {
    const Error& error = outcome.written.error();
    warn(fmt::format("the peer replicas of step {} were not made: {}", outcome.step, error.text()));
  }
  record({{"event", std::string("replica")},
          {"step", outcome.step},
          {"complete", outcome.written.has_value()},
          {"bytes", static_cast<std::int64_t>(*report.copied_bytes)},
          {"stall_seconds", report.stall_seconds},
          {"seconds", outcome.durable_seconds}});
}

void Observer::saved(const SaveReport& report) {
  if (report.copied_bytes) {
    copied(report);
    return;
  }
  const auto& outcome = report.outcome;
  for (const std::string& failure : outcome.failures) {
    warn(fmt::format("the checkpoint of step {} was not written: {}; trying again", outcome.step, failure));
  }
  if (!outcome.written) {
    Error error = outcome.written.error();
    error.reason += "; earlier checkpoints are unchanged";
    warn(fmt::format("the checkpoint of step {} was not written: {}", outcome.step, error.text()));
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
      fmt::format("no checkpoint of step {}: the previous one is still being written; try saving less often, or "
                  "--checkpoint-overlap=wait",
                  step));
  record({{"event", std::string("checkpoint_skipped")}, {"step", step}});
}

void Observer::finished(const checkpoint::Progress& progress, const std::string& ending, std::uint32_t cpus) {
  note(fmt::format("{} after step {}", ending, progress.global_step));
  const bool cpus_left = static_cast<int>(cpus) > run_.wait.workers;
  if (const std::string advice = metrics::input_bound_advice(run_.wait, cpus_left); !advice.empty()) {
    note(advice);
  }
  if (run_totals_.bad() > 0) {
    note(fmt::format("skipped images: {} ({} damaged, {} unreadable)", run_totals_.bad(), run_totals_.damaged,
                     run_totals_.unread));
  }
  record_ranks(progress.global_step);
  const Usage usage = usage_of_this_process();
  metrics::Record of_end{{"event", std::string("end")},
                         {"ending", ending},
                         {"step", progress.global_step},
                         {"data_wait_fraction", run_.wait.fraction()},
                         {"peak_memory_bytes_of_rank_0", static_cast<std::int64_t>(usage.peak_memory)},
                         {"cpu_seconds_of_rank_0", usage.cpu_seconds}};
  report_device_memory(of_end);
  report_efficiency(of_end);
  record(std::move(of_end));
}

void Observer::report_device_memory(metrics::Record& of_end) {
  const auto allocated = rank_times_.most_device_memory(&metrics::DeviceMemory::allocated);
  const auto reserved = rank_times_.most_device_memory(&metrics::DeviceMemory::reserved);
  if (reserved.bytes == 0) {
    return;
  }
  const auto whole = [](double bytes) { return static_cast<std::int64_t>(bytes); };
  const auto text = [](const metrics::MostOfRanks& most) {
    return metrics::human_bytes(static_cast<std::uint64_t>(most.bytes));
  };
  note(fmt::format("peak device memory: {} allocated (rank {}), {} reserved (rank {})", text(allocated), allocated.rank,
                   text(reserved), reserved.rank));
  of_end.emplace_back("device_peak_allocated_bytes", whole(allocated.bytes));
  of_end.emplace_back("device_peak_allocated_rank", std::int64_t{allocated.rank});
  of_end.emplace_back("device_peak_reserved_bytes", whole(reserved.bytes));
  of_end.emplace_back("device_peak_reserved_rank", std::int64_t{reserved.rank});
}

void Observer::report_efficiency(metrics::Record& of_end) {
  const double rate = static_cast<double>(run_totals_.samples) / run_.wait.elapsed;
  const double watts = rank_times_.mean_gpu_watts();
  if (const double per_joule = rate / watts; std::isfinite(per_joule)) {
    note(fmt::format("{:.4g} images per joule of the GPUs ({:.4g} img/s, {:.4g} W)", per_joule, rate, watts));
    of_end.emplace_back("images_per_joule", per_joule);
  }
}

void Observer::failed(checkpoint::Progress& progress, const Error& error) {
  record_steps(progress);
  record_ranks(progress.global_step);
  record({{"event", std::string("failed")}, {"step", progress.global_step}, {"error", error.message()}});
}

void Observer::record(metrics::Record record) {
  if (!records_.to) {
    return;
  }
  record.emplace_back("time", std::round(1e3 * wall_seconds_now()) / 1e3);
  note_written(records_, records_.to->write(record));
  if (events_.to) {
    note_written(events_, events_.to->write(record));
  }
}

template <typename Writer>
void Observer::note_written(Output<Writer>& output, const Result<void>& written) {
  if (!written) {
    if (output.lost++ == 0) {  // warn once: training continues without records until there is space again
      warn(written.error().text());
    }
  } else if (output.lost > 0) {
    warn(fmt::format("{} lacks {} that could not be written", output.name,
                     counted(std::exchange(output.lost, 0), "record")));
  }
}

}  // namespace rollcall::train
