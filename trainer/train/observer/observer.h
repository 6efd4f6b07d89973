#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/train_config.h"
#include "trainer/distributed/ddp/replica.h"
#include "trainer/metrics/metrics_writer.h"
#include "trainer/metrics/progress_display.h"
#include "trainer/metrics/rank_times.h"
#include "trainer/metrics/running_average.h"
#include "trainer/metrics/step_times.h"
#include "trainer/metrics/throughput.h"
#include "trainer/train/checkpoints/checkpoint_writer.h"
#include "trainer/train/job_context.h"
#include "trainer/train/observer/meters.h"
#include "trainer/train/observer/tensorboard.h"

namespace rollcall::train {

/// Values of a step other than its totals. NaN: there is none.
struct StepNumbers {
  std::int64_t step = 0;           ///< number in the run, from 1
  std::int64_t step_in_epoch = 0;  ///< from 1
  double learning_rate = 0;
  double gradient_norm = std::numeric_limits<double>::quiet_NaN();  ///< before clipping
  double loss_scale = std::numeric_limits<double>::quiet_NaN();     ///< after the step
};

/// Reports a run to people and scripts: progress and notes on standard output, warnings on standard error,
/// metrics.jsonl, and optionally the same data for TensorBoard. Only rank 0 reports, except that the rank that met an
/// unreadable image names it. Main thread only.
///
/// Its members are the state of the run and of the window since the last record, the meters, and the outputs.
class Observer {
 public:
  /// Opens metrics.jsonl and, if requested, a file for TensorBoard in the run's folder on rank 0. The arguments outlive
  /// the observer. Errors: CannotCreate; InputOutput: metrics.jsonl cannot be written.
  [[nodiscard]] static Result<Observer> open(const config::RunConfig& config, const JobContext& context);

  void note(const std::string& line) { display_->message(line); }  ///< prints one line for people
  /// Prints "rollcall: warning: ..."; nothing for an empty text.
  void warn(const std::string& text);
  void record(metrics::Record record);  ///< adds the time
  /// Names unreadable images; from the tenth on it only counts them.
  void bad_samples(const std::vector<Error>& errors);

  /// Writes the record of begin_record(), of a run that starts at `progress`.
  void begun(metrics::Record record, const checkpoint::Progress& progress);
  /// Marks the next step as the first one in a new world.
  void recovered(const Recovery& recovery) { recovery_ = recovery; }
  void begin_epoch(std::int64_t steps_in_epoch);
  /// Shows a batch that is about to be trained with, of step `step`: images as in Batch.
  void batch_read(std::int64_t step, const at::Tensor& images, const data::Normalisation& normalisation);
  /// Reports that step `step` has changed the parameters, which still have its gradients.
  void updated(std::int64_t step, const parallel::Replica& replica);
  /// Reads the energy counters at most once a second, often enough that none wraps twice unnoticed.
  void measure_energy() { warn(meters_.add_energy(rank_times_)); }
  /// Records how this rank spent the time of a step, and how long all ranks waited for their batches. Call it before
  /// step_done().
  void step_took(const metrics::StepTimes& times, const metrics::DataWait& wait);
  /// Returns RankTimes::tell() of a step whose gradients are complete, with the device memory that they took.
  [[nodiscard]] std::vector<double> rank_numbers(std::int64_t step);
  [[nodiscard]] metrics::RankTimes& rank_times() { return rank_times_; }
  /// Reports `totals` of a step over all ranks, which progress.epoch_totals and .unrecorded already include. Writes a
  /// record if one is due. `progress` may be a step further by now.
  void step_done(checkpoint::Progress& progress, const metrics::RunningAverage& totals, const StepNumbers& numbers);
  /// Writes a record of the steps since the last one, if there are any, and clears progress.unrecorded. Call it before
  /// each save or copy of a state and at the end of a run, so that a run that resumes from that state records every
  /// step exactly once.
  void record_steps(checkpoint::Progress& progress);
  /// Reports that the gradients of a step were not finite and the optimizer did not use them. `scaled`: in float16,
  /// whose loss scale has changed. `where`: "in layer1.0.conv1.weight".
  void skipped_step(std::int64_t step, const checkpoint::Progress& progress, bool scaled, const std::string& where);
  void end_epoch(const checkpoint::Progress& progress);
  /// `average`: with the average of the weights (--ema); unset: there is none.
  void validated(const checkpoint::Progress& progress, const metrics::Validation& model,
                 const std::optional<metrics::Validation>& average, double seconds);
  /// Reports a save that ended, successfully or not.
  void saved(const SaveReport& report);
  /// Reports a save that was skipped because the previous one was still in progress.
  void save_skipped(std::int64_t step);
  /// `cpus`: CPUs that this rank may use.
  void finished(const checkpoint::Progress& progress, const std::string& ending, std::uint32_t cpus);
  /// Records the error that ends the run; it is printed elsewhere.
  void failed(checkpoint::Progress& progress, const Error& error);

 private:
  Observer(const config::RunConfig& config, const JobContext& context);

  /// An additional output, written as long as there is space.
  template <typename Writer>
  struct Output {
    const char* name;
    std::optional<Writer> to = {};  ///< set on rank 0
    std::int64_t lost = 0;          ///< records lost since the last one was written
  };
  /// Sums over steps.
  struct Sums {
    metrics::DataWait wait;
    metrics::StepTimes times;
  };

  /// Warns once if there is no space, and reports the missing records when there is again.
  template <typename Writer>
  void note_written(Output<Writer>& output, const Result<void>& written);
  void copied(const SaveReport& report);
  void record_ranks(std::int64_t step);
  /// Reports the images per joule of the GPUs, if known.
  void report_efficiency(metrics::Record& of_end);
  /// Reports the highest device memory of any rank.
  void report_device_memory(metrics::Record& of_end);
  void report_recovery(const checkpoint::Progress& progress);

  const config::RunConfig& config_;
  const JobContext& context_;
  Meters meters_;
  metrics::RankTimes rank_times_;
  double ranks_recorded_;  ///< seconds_now() of the last record of the ranks
  std::unique_ptr<metrics::ProgressDisplay> display_;
  Output<metrics::MetricsWriter> records_{"metrics.jsonl"};
  Output<TensorBoard> events_{"the file for TensorBoard"};
  Recovery recovery_;       ///< until it is reported
  bool has_begun_ = false;  ///< the record of the beginning has been written
  struct {
    metrics::ProgressState state;
    StepNumbers numbers;
  } last_;                                   ///< the last step
  std::int64_t bad_samples_ = 0;             ///< of this rank in this run
  metrics::RunningAverage run_totals_ = {};  ///< training totals of this run, all ranks
  metrics::Throughput throughput_;
  Sums run_;
  Sums window_;  ///< since the last record
};

}  // namespace rollcall::train
