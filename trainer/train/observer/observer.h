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
#include "trainer/train/observer/meters.h"
#include "trainer/train/observer/tensorboard.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// What is told of a step besides its totals. Not a number: there is none.
struct StepNumbers {
  std::int64_t step = 0;           ///< of the run: 1 is the first
  std::int64_t step_in_epoch = 0;  ///< 1 is the first
  double learning_rate = 0;
  double gradient_norm = std::numeric_limits<double>::quiet_NaN();  ///< before it was clipped
  double loss_scale = std::numeric_limits<double>::quiet_NaN();     ///< behind the step
};

/// What people and scripts see of a run: progress and notes on standard output, warnings on standard error,
/// metrics.jsonl and, where wanted, the same for TensorBoard. Rank 0 alone shows them, except that the rank which met
/// an unreadable image names it. Main thread only.
///
/// Its members are what is known of the run so far and of the window since the last record, what it measures with, and
/// where it goes.
class Observer {
 public:
  /// Opens metrics.jsonl, and a file for TensorBoard where wanted, in the run's folder on rank 0. The arguments outlive
  /// the observer. Errors: CannotCreate; InputOutput: the latter cannot be written.
  [[nodiscard]] static Result<Observer> open(const config::RunConfig& config, const World& world);

  void note(const std::string& line) { display_->message(line); }  ///< one line for people
  void warn(const std::string& text);                              ///< "rollcall: warning: ..."; empty: nothing
  void record(metrics::Record record);                             ///< adds the time
  /// Names unreadable images; from the tenth on it only counts them.
  void bad_samples(const std::vector<Error>& errors);

  /// The record of begin_record(), of a run that begins at `progress`.
  void begun(metrics::Record record, const checkpoint::Progress& progress);
  /// The next step that is done is the first one in another world.
  void recovered(const Recovery& recovery) { recovery_ = recovery; }
  void begin_epoch(std::int64_t steps_in_epoch);
  /// A batch that is about to be trained with, of the step of this number: images as Batch has them.
  void batch_read(std::int64_t step, const at::Tensor& images);
  /// The step of this number has changed the parameters, which still have its gradients.
  void updated(std::int64_t step, const parallel::Replica& replica);
  /// Reads the counters of energy, at most once a second: often enough that none begins anew twice unseen.
  void measure_energy() { warn(meters_.add_energy(rank_times_)); }
  /// Before step_done(): what this step's time went to on this rank, and how long all waited for their batches.
  void step_took(const metrics::StepTimes& times, const metrics::DataWait& wait);
  /// RankTimes::tell() of a step whose gradients are there: also of what memory of the device they took.
  [[nodiscard]] std::vector<double> tell_of_rank(std::int64_t step);
  [[nodiscard]] metrics::RankTimes& rank_times() { return rank_times_; }
  /// `totals` of the step over all ranks, which progress.epoch_totals and .unrecorded already include. Makes a record
  /// where one is due. `progress` may be a step further by now.
  void step_done(checkpoint::Progress& progress, const metrics::RunningAverage& totals, const StepNumbers& numbers);
  /// A record of the steps since the last one, if there are any; empties progress.unrecorded. Before each save and copy
  /// of a state, and where a run ends: whoever goes on from that state counts no step that is in a record, and none is
  /// in no record.
  void record_steps(checkpoint::Progress& progress);
  /// Gradients of this step were not finite, and the optimizer did not see them.
  /// `scaled`: in float16, whose loss scale has changed. `where`: "of layer1.0.conv1.weight".
  void skipped_step(std::int64_t step, const checkpoint::Progress& progress, bool scaled, const std::string& where);
  void end_epoch(const checkpoint::Progress& progress);
  void validated(const checkpoint::Progress& progress, const metrics::RunningAverage& totals, double seconds);
  /// A save that ended, well or not.
  void saved(const SaveReport& report);
  /// A save that was left out, as the one before it was still under way.
  void save_skipped(std::int64_t step);
  /// `cpus`: that this rank may use.
  void finished(const checkpoint::Progress& progress, const std::string& ending, std::uint32_t cpus);
  /// What ends the run is told elsewhere; here it is recorded.
  void failed(checkpoint::Progress& progress, const Error& error);

 private:
  Observer(const config::RunConfig& config, const World& world);

  /// Something that is written besides, as long as there is room.
  template <typename Writer>
  struct Output {
    const char* name;
    std::optional<Writer> to = {};  ///< rank 0's
    std::int64_t lost = 0;          ///< records since one was written
  };
  /// Of steps.
  struct Sums {
    metrics::DataWait wait;
    metrics::StepTimes times;
  };

  /// Warns once where there is no room any more, and tells what is missing once there is again.
  template <typename Writer>
  void note_written(Output<Writer>& output, const Result<void>& written);
  void copied(const SaveReport& report);
  void record_ranks(std::int64_t step);
  /// Images per joule of the GPUs, where that is known.
  void tell_efficiency(metrics::Record& of_end);
  /// The most memory of a device that a rank has had.
  void tell_device_memory(metrics::Record& of_end);
  void tell_recovery(const checkpoint::Progress& progress);

  const config::RunConfig& config_;
  const World& world_;
  Meters meters_;
  metrics::RankTimes rank_times_;
  double ranks_recorded_;  ///< when, as seconds_now()
  std::unique_ptr<metrics::ProgressDisplay> display_;
  Output<metrics::MetricsWriter> records_{"metrics.jsonl"};
  Output<TensorBoard> events_{"the file for TensorBoard"};
  Recovery recovery_;       ///< until it is told
  bool has_begun_ = false;  ///< the record of the beginning is written
  struct {
    metrics::ProgressState state;
    StepNumbers numbers;
  } last_;                                   ///< step
  std::int64_t bad_samples_ = 0;             ///< of this rank, in this run
  metrics::RunningAverage run_totals_ = {};  ///< training in this run, all ranks
  metrics::Throughput throughput_;
  Sums run_;
  Sums window_;  ///< since the last record
};

}  // namespace rollcall::train
