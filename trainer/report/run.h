#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/metrics/evaluation.h"
#include "trainer/report/rank_grid.h"
#include "trainer/report/record_file.h"
#include "trainer/report/series.h"

namespace rollcall::report {

/// One start of a run, from its record `begin` to the next one or the end of the file. Times are in seconds since the
/// epoch.
struct Start {
  double began = 0;       ///< 0: not recorded
  double last = 0;        ///< time of its last record
  double first_step = 0;  ///< when its first step began; 0: none
  std::int64_t from_step = 0;
  std::int64_t to_step = 0;
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;
  std::int64_t cpus_of_rank = 1;
  double joules = 0;  ///< energy of all nodes with counters
  std::int64_t restart_count = 0;
  std::string job;
  std::string ending;  ///< empty: it was killed or is still running

  [[nodiscard]] double seconds() const { return began > 0 && last > began ? last - began : 0; }
  [[nodiscard]] double startup_seconds() const { return began > 0 && first_step > began ? first_step - began : 0; }
};

/// The value of a setting or variable, and its origin.
struct NamedValue {
  std::string value;
  std::string origin;
};

/// The steps in a trace of --trace-steps.
struct TracedSteps {
  std::string file;  ///< name in the run's folder
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  /// Seconds of each traced rank: of the steps, with computation, with communication, and with communication that does
  /// not overlap with computation.
  std::vector<double> seconds, compute, communication, exposed;
};

/// The parts of a step's time, in their order.
inline constexpr std::array<const char*, 6> kParts{"data", "forward", "backward", "wait", "optimizer", "rest"};

/// The content of a run's metrics.jsonl, in memory that does not grow with the file. Plain value.
struct Run {
  std::string path;  ///< path of the file
  std::string name;  ///< name of the folder
  FileNotes file;
  std::vector<std::string> notes;     ///< problems of the record
  std::vector<std::string> warnings;  ///< the first warnings of the run, each once
  double renewed = 0;                 ///< when its lease was renewed, seconds since the epoch; 0: there is no lease

  // These are of the last start that has them.
  std::string command_line;
  std::string version;
  std::string libtorch;
  std::string model;
  std::string data;
  std::optional<metrics::Evaluation> evaluation;  ///< of evaluation/evaluation.json beside the file
  std::string backend;
  std::string energy_of;  ///< what is measured on rank 0's node: "node", "processors and memory"; empty: nothing
  std::vector<std::string> hosts;
  std::vector<std::int64_t> ranks_of_hosts;
  std::int64_t training_images = 0;
  std::int64_t images_of_step = 0;
  std::int64_t steps_of_epoch = 0;
  std::int64_t epochs = 0;
  std::int64_t max_steps = 0;
  double job_ends = 0;  ///< when the job ends, seconds since the epoch; 0: unknown
  std::map<std::string, NamedValue> settings;
  std::map<std::string, NamedValue> environment;

  // The results. Steps that a later start repeated count once.
  std::vector<Start> starts;
  std::vector<TracedSteps> traces;  ///< the last ones
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  Series loss, top1, top5, learning_rate, images_per_second;
  Series gpu_load;                          ///< fraction, the mean of all ranks
  Series gpu_memory, gpu_memory_total;      ///< MiB on the GPU with the most memory in use
  Series gpu_watts, images_per_joule;       ///< of all GPUs together
  Series data_wait;                         ///< fraction
  std::array<Series, kParts.size()> parts;  ///< seconds per step
  Series clock;                             ///< seconds since the first start
  Series seconds;                           ///< seconds of the steps; their sum is the time of all steps
  Series samples, bad_samples;              ///< images of the steps, and damaged or unreadable ones
  Series valid_loss, valid_top1, valid_top5, valid_precision;
  Series durable, stall;  ///< seconds of each checkpoint
  Series change_seconds;  ///< seconds of each change of the world in memory, until the next step
  RankGrid ranks;
  std::array<double, kParts.size()> part_seconds{};  ///< seconds of all steps, including repeated ones
  double loader_utilisation = 0;                     ///< the last value
  double validation_seconds = 0;
  double stall_seconds = 0;
  double lost_seconds = 0;  ///< seconds of steps that were repeated
  std::int64_t lost_steps = 0;
  std::int64_t checkpoints = 0;
  std::int64_t failed_checkpoints = 0;
  std::int64_t left_out_checkpoints = 0;
  std::int64_t replicas = 0;         ///< peer replicas that all ranks stored
  std::int64_t failed_replicas = 0;  ///< peer replicas that some ranks did not store
  double replica_bytes = 0;          ///< size of rank 0's part
  double replica_stall_seconds = 0;  ///< seconds that training waited for replicas
  std::int64_t world_changes = 0;    ///< how often ranks were lost or joined
  std::int64_t left_out_steps = 0;   ///< skipped steps
  double peak_memory = 0;            ///< bytes, the most of any rank
  double device_peak = 0;            ///< bytes of a device's memory in tensors, the most of any rank; 0: no devices
  double best_quality = -1;          ///< best top-1 or mean average precision of the validations; < 0: none
  std::int64_t best_step = 0;
  double now = 0;                ///< when the record was read, seconds since the epoch
  std::int64_t clock_jumps = 0;  ///< number of records that are older than the one before them

  /// Returns what best_quality is called: "top-1" or "mAP".
  [[nodiscard]] const char* quality_name() const { return valid_precision.empty() ? "top-1" : "mAP"; }
  [[nodiscard]] double wall_seconds() const;
  [[nodiscard]] double node_hours() const;
  [[nodiscard]] double core_hours() const;
  [[nodiscard]] double joules() const;
  /// Returns the share of the time of all starts in steps that were not repeated; 0 where it is not recorded.
  [[nodiscard]] double goodput() const;
  /// Returns whether the last start recorded its end.
  [[nodiscard]] bool ended() const { return !starts.empty() && !starts.back().ending.empty(); }
  /// Returns whether the run has not ended and its lease was renewed recently.
  [[nodiscard]] bool is_alive() const;
  /// Adds a note, unless it exists or there are many.
  void note_once(const std::string& note);
  /// Returns the current or last epoch, from 1.
  [[nodiscard]] std::int64_t epoch_shown() const;
  /// Returns the number of steps of all epochs or of --max-steps; 0: unknown.
  [[nodiscard]] std::int64_t all_steps() const;
  [[nodiscard]] std::string host_of(std::size_t rank) const;
};

/// Adds the records of one run to a Run, in their order. `run` must outlive it, and may be copied between two records.
class RunReader {
 public:
  explicit RunReader(Run& run) : run_(run) {}
  void take(const ReadRecord& record);

 private:
  void take_begin(const ReadRecord& record);
  void take_step(const ReadRecord& record);
  void take_ranks(const ReadRecord& record);
  void take_trace(const ReadRecord& record);
  void take_checkpoint(const ReadRecord& record);
  void take_replica(const ReadRecord& record);
  void take_change(const ReadRecord& record);
  void take_validation(const ReadRecord& record);
  /// Removes the results after `step`, which will be repeated; < 0: unknown, and nothing is removed.
  void take_resume(std::int64_t step);
  void find_best();
  void take_warning(const std::string& text);
  void note_time(const ReadRecord& record);
  void note_step(const ReadRecord& record);
  Start& start();

  Run& run_;
  std::map<std::int64_t, double> validated_;  ///< top-1 or mean average precision by step
};

/// Adds the notes on the file and on the whole run. Call it after the last record.
void add_notes(Run& run, const FileNotes& file);

/// Returns a run without records for the argument RUN.
[[nodiscard]] Run unread_run(const std::string& run);

/// Sets the current time, and when the lease of the folder was renewed.
void look_at_present(Run& run);

/// Returns the file for the argument RUN: metrics.jsonl in the folder of that name, or a file of that name.
[[nodiscard]] std::string record_path(const std::string& run);

/// Reads a run. Problems of the file's content are in the notes of the result. `go_on` is that of RecordFile::read().
/// Errors: those of RecordFile.
[[nodiscard]] Result<Run> read_run(const std::string& run, const std::function<bool()>& go_on = {});

}  // namespace rollcall::report
