#include "trainer/train/observer/observer.h"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/time_limit.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

constexpr std::int64_t kBadSamplesNamed = 10;
/// A record of N ranks every N / 16 seconds: whatever their number, their records grow by less than 1 KB a second.
constexpr double kRanksASecond = 16;

constexpr std::chrono::seconds kLongestAnswer{2};  // of a driver or a kernel that is well, long before
constexpr double kMeasureSeconds = 1;              // a reading costs microseconds, on some nodes a millisecond

/// What is not known is not in a record.
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

}  // namespace

Result<Observer> Observer::open(const config::RunConfig& config, const World& world) {
  Observer observer(config, world);
  if (world.rank == 0) {
    ASSIGN_OR_RETURN(observer.writer_, metrics::MetricsWriter::open(config.folder + "/metrics.jsonl"));
  }
  if (world.rank == 0 && config.tensorboard) {
    ASSIGN_OR_RETURN(observer.tensorboard_, TensorBoard::create(config));
  }
  return observer;
}

Observer::Observer(const config::RunConfig& config, const World& world)
    : rank_(world.rank),
      world_size_(world.world_size),
      device_(world.device),
      epochs_(config.epochs),
      max_steps_(config.max_steps),
      log_steps_(config.log_steps),
      rank_times_(world.rank, world.world_size, world.device.type() != at::kCPU),
      rank_seconds_(config.rank_seconds.value_or(std::max(10.0, world.world_size / kRanksASecond))),
      ranks_recorded_(seconds_now()),
      display_(std::make_unique<metrics::ProgressDisplay>(
          STDOUT_FILENO, world.rank == 0 ? config.progress : metrics::ProgressStyle::None, log_steps_,
          [] { return metrics::clock_text(wall_seconds_now()); })) {
  open_meters(world);
}

void Observer::open_meters(const World& world) {
  const bool has_gpu = world.device.type() != at::kCPU;
  const std::shared_ptr<const metrics::Nvml> nvml =
      has_gpu ? run_within(kLongestAnswer, [] { return metrics::Nvml::open(); }).value_or(nullptr) : nullptr;
  if (world.local_rank == 0) {
    energy_ =
        run_within(kLongestAnswer, [nvml] { return std::make_shared<metrics::EnergyMeter>(nvml); }).value_or(nullptr);
  }
  const auto meter = run_within(kLongestAnswer, [nvml, uuid = world.device.facts().uuid] {
    return metrics::GpuMeter::of(nvml, uuid, seconds_now());
  });
  if (meter && *meter) {
    gpu_ = std::make_shared<metrics::GpuMeter>(**meter);
  }
}

void Observer::warn(const std::string& text) {
  if (rank_ == 0) {
    display_->finish();
    std::fprintf(stderr, "rollcall: warning: %s\n", printable(text).c_str());
    if (has_begun_) {  // else it is in the record of the beginning
      record({{"event", std::string("warning")}, {"text", text}});
    }
  }
}

void Observer::bad_samples(const std::vector<Error>& errors) {
  for (const Error& error : errors) {
    bad_samples_ += 1;
    if (bad_samples_ <= kBadSamplesNamed) {
      std::fprintf(stderr, "rollcall: warning: %s: skipped (rank %u%s)\n", error.text().c_str(), rank_,
                   bad_samples_ == kBadSamplesNamed ? "; further ones are only counted" : "");
    }
  }
}

void Observer::begun(metrics::Record of_begin, const checkpoint::Progress& progress) {
  of_begin.emplace_back("energy_of", energy_ ? energy_->covers() : "");
  record(std::move(of_begin));
  has_begun_ = true;
  if (progress.global_step > 0) {
    record({{"event", std::string("resume")}, {"global_step", progress.global_step}});
  }
}

void Observer::begin_epoch(std::int64_t steps_in_epoch) {
  steps_in_epoch_ = steps_in_epoch;
  throughput_.restart();
}

void Observer::batch_read(std::int64_t step, const at::Tensor& images) {
  if (tensorboard_) {
    note_written(events_, tensorboard_->show_images(step, images));
  }
}

void Observer::updated(std::int64_t step, const parallel::Replica& replica) {
  if (tensorboard_ && tensorboard_->shows_tensors(step)) {
    note_written(events_, tensorboard_->show_tensors(step, replica.named_parameters(), replica.is_sharded()));
  }
}

void Observer::step_took(const metrics::StepTimes& times, const metrics::DataWait& wait) {
  run_wait_ += wait;
  window_wait_ += wait;
  window_times_ += times;
  const Usage usage = usage_of_this_process();
  rank_times_.add(times, {.peak_memory = usage.peak_memory,
                          .cpu_seconds = usage.cpu_seconds,
                          .loading = wait.loading,
                          .loader_seconds = wait.workers * times.elapsed});
  measure_energy();
  measure_gpu();
}

std::vector<double> Observer::tell_of_rank(std::int64_t step) {
  if (const auto peak = device::memory_peak(device_)) {
    rank_times_.set_device_memory(
        {.allocated = static_cast<double>(peak->allocated), .reserved = static_cast<double>(peak->reserved)});
  }
  return rank_times_.tell(step);
}

void Observer::measure_energy() {
  if (const double now = seconds_now(); energy_ && now - energy_read_ >= kMeasureSeconds) {
    energy_read_ = now;
    const auto joules = run_within(kLongestAnswer, [energy = energy_] { return energy->take(); });
    if (!joules) {
      warn("energy: a counter did not answer within 2 s: what is used from now on is not counted");
      energy_.reset();
      return;
    }
    rank_times_.add_energy(*joules);
  }
}

void Observer::measure_gpu() {
  if (const double now = seconds_now(); gpu_ && now - gpu_read_ >= kMeasureSeconds) {
    gpu_read_ = now;
    const auto use = run_within(kLongestAnswer, [gpu = gpu_, now] { return gpu->take(now); });
    if (!use) {
      give_up_gpu();
      return;
    }
    rank_times_.add_gpu(*use);
  }
}

void Observer::give_up_gpu() {
  warn("gpu: NVML did not answer within 2 s: load, memory and watts of this rank's GPU are no longer told");
  gpu_.reset();
}

void Observer::tell_recovery(const checkpoint::Progress& progress) {
  const Recovery done = std::exchange(recovery_, {});
  const double first_step = seconds_now() - done.noticed;
  note(fmt::format(
      "step {}: {} ranks go on, {:.3f} s after the change was noticed (old groups gone {:.3f}, agents told "
      "{:.3f}, met {:.3f}, state there {:.3f}): {}",
      progress.global_step, world_size_, first_step, done.released, done.hold, done.joined, done.restored, done.cause));
  record({{"event", std::string("regrouped")},
          {"step", progress.global_step},
          {"ranks", std::int64_t{world_size_}},
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
    tell_recovery(progress);
  }
  throughput_.step_done(seconds_now(), totals.samples);
  run_totals_ += totals;
  numbers_ = numbers;
  state_ = {.epoch = progress.epoch,
            .epochs = epochs_,
            .step = numbers.step_in_epoch,
            .steps_per_epoch = steps_in_epoch_,
            .steps_to_limit = max_steps_ > 0 ? std::optional(max_steps_ - numbers.step) : std::nullopt,
            .loss = totals.loss(),
            .top1 = progress.epoch_totals.top1(),
            .learning_rate = numbers.learning_rate,
            .images_per_second = throughput_.images_per_second(),
            .gpus = rank_times_.gpus(),
            .data_wait = run_wait_.fraction()};
  state_.remaining_seconds = metrics::remaining_seconds(
      metrics::steps_left(state_) * progress.world_size * progress.batch_size, state_.images_per_second);
  if (!std::exchange(first_step_is_told_, true)) {
    note(fmt::format("first step of this start: step {} is done and took {:.2f} s", numbers_.step,
                     window_times_.elapsed));
  }
  display_->step_done(state_, seconds_now());
  if (numbers.step % log_steps_ == 0 || numbers.step_in_epoch == steps_in_epoch_) {
    record_steps(progress);
    if (seconds_now() - ranks_recorded_ >= rank_seconds_) {
      record_ranks(numbers.step);
    }
  }
}

void Observer::record_steps(checkpoint::Progress& progress) {
  if (window_times_.steps == 0) {
    return;
  }
  metrics::Record of_step{{"event", std::string("step")},
                          {"step", numbers_.step},
                          {"epoch", state_.epoch},
                          {"loss", progress.unrecorded.loss()},
                          {"top1", progress.unrecorded.top1()},
                          {"top5", progress.unrecorded.top5()},
                          {"samples", progress.unrecorded.samples},
                          {"bad_samples", progress.unrecorded.bad()},
                          {"learning_rate", numbers_.learning_rate},
                          {"gradient_norm", numbers_.gradient_norm},
                          {"loss_scale", numbers_.loss_scale},
                          {"images_per_second", state_.images_per_second.value_or(0)},
                          {"data_wait_seconds", window_wait_.waited},
                          {"data_wait_fraction", window_wait_.fraction()},
                          {"loader_utilisation_of_rank_0", window_wait_.utilisation()},
                          {"steps", window_times_.steps},
                          {"seconds", window_times_.elapsed},
                          {"forward_seconds", window_times_.forward},
                          {"backward_seconds", window_times_.backward},
                          {"wait_seconds", window_times_.wait},
                          {"optimizer_seconds", window_times_.optimizer}};
  add_gpus(of_step, state_);
  record(std::move(of_step));
  progress.unrecorded = {};
  window_wait_ = {};
  window_times_ = {};
}

void Observer::record_ranks(std::int64_t step) {
  ranks_recorded_ = seconds_now();
  if (auto of_ranks = rank_seconds_ > 0 ? rank_times_.take_record(step) : std::nullopt) {
    record(*std::move(of_ranks));
  }
}

void Observer::skipped_step(std::int64_t step, const checkpoint::Progress& progress, bool scaled,
                            const std::string& where) {
  const std::string what = scaled ? fmt::format("in fp16: left out, loss scale now {}", progress.loss_scale)
                                  : fmt::format("({}): left out", where);
  note(fmt::format("step {}: gradients are not finite {} ({} steps left out so far)", step, what,
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

void Observer::validated(const checkpoint::Progress& progress, const metrics::RunningAverage& totals, double seconds) {
  if (gpu_) {
    const auto pause = run_within(kLongestAnswer, [gpu = gpu_] { return gpu->take(seconds_now()); });  // no training
    if (!pause) {
      give_up_gpu();
    }
  }
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
          {"samples", totals.samples},
          {"bad_samples", totals.bad()},
          {"unread_samples", totals.unread},
          {"seconds", seconds}});
}

void Observer::finished(const checkpoint::Progress& progress, const std::string& ending, std::uint32_t cpus) {
  note(fmt::format("{} after step {}", ending, progress.global_step));
  const bool cpus_left = static_cast<int>(cpus) > run_wait_.workers;
  if (const std::string advice = metrics::input_bound_advice(run_wait_, cpus_left); !advice.empty()) {
    note(advice);
  }
  if (run_totals_.bad() > 0) {
    note(fmt::format("left out {} times: images that could not be used ({} times damaged, {} times not to be read)",
                     run_totals_.bad(), run_totals_.damaged, run_totals_.unread));
  }
  record_ranks(progress.global_step);
  const Usage usage = usage_of_this_process();
  metrics::Record of_end{{"event", std::string("end")},
                         {"ending", ending},
                         {"step", progress.global_step},
                         {"data_wait_fraction", run_wait_.fraction()},
                         {"peak_memory_bytes_of_rank_0", static_cast<std::int64_t>(usage.peak_memory)},
                         {"cpu_seconds_of_rank_0", usage.cpu_seconds}};
  tell_device_memory(of_end);
  tell_efficiency(of_end);
  record(std::move(of_end));
}

void Observer::tell_device_memory(metrics::Record& of_end) {
  const auto allocated = rank_times_.most_device_memory(&metrics::DeviceMemory::allocated);
  const auto reserved = rank_times_.most_device_memory(&metrics::DeviceMemory::reserved);
  if (reserved.bytes == 0) {
    return;
  }
  const auto whole = [](double bytes) { return static_cast<std::int64_t>(bytes); };
  const auto text = [](const metrics::MostOfRanks& most) {
    return metrics::human_bytes(static_cast<std::uint64_t>(most.bytes));
  };
  note(fmt::format("device memory: at most {} allocated (rank {}), {} reserved (rank {})", text(allocated),
                   allocated.rank, text(reserved), reserved.rank));
  of_end.emplace_back("device_peak_allocated_bytes", whole(allocated.bytes));
  of_end.emplace_back("device_peak_allocated_rank", std::int64_t{allocated.rank});
  of_end.emplace_back("device_peak_reserved_bytes", whole(reserved.bytes));
  of_end.emplace_back("device_peak_reserved_rank", std::int64_t{reserved.rank});
}

void Observer::tell_efficiency(metrics::Record& of_end) {
  const double rate = static_cast<double>(run_totals_.samples) / run_wait_.elapsed;
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
  if (!writer_) {
    return;
  }
  record.emplace_back("time", std::round(1e3 * wall_seconds_now()) / 1e3);
  note_written(records_, writer_->write(record));
  if (tensorboard_) {
    note_written(events_, tensorboard_->write(record));
  }
}

void Observer::note_written(Output& output, const Result<void>& written) {
  if (!written) {
    if (output.lost++ == 0) {  // once is enough: training goes on without records until there is room again
      warn(written.error().text());
    }
  } else if (output.lost > 0) {
    warn(fmt::format("{} lacks {} records, which could not be written", output.name, std::exchange(output.lost, 0)));
  }
}

}  // namespace rollcall::train
