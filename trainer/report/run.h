#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/report/rank_grid.h"
#include "trainer/report/record_file.h"
#include "trainer/report/series.h"

namespace rollcall::report {

/// One start of a run, from its record `begin` to the next one or the end of the file.
struct Start {
  double began = 0;       ///< seconds since the epoch; 0: not recorded
  double last = 0;        ///< of its last record
  double first_step = 0;  ///< when its first step began; 0: none
  std::int64_t from_step = 0;
  std::int64_t to_step = 0;
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;
  std::int64_t cpus_of_rank = 1;
  double joules = 0;  ///< of all nodes, as far as there were counters
  std::int64_t restart_count = 0;
  std::string job;
  std::string ending;  ///< empty: it was killed, or goes on

  [[nodiscard]] double seconds() const { return began > 0 && last > began ? last - began : 0; }
  [[nodiscard]] double startup_seconds() const { return began > 0 && first_step > began ? first_step - began : 0; }
};

/// A setting or variable as it was in force, and who said so.
struct NamedValue {
  std::string value;
  std::string origin;
};

/// Steps whose course --trace-steps has kept.
struct TracedSteps {
  std::string file;  ///< in the run's folder
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  /// Of each traced rank: seconds of those steps, of them with computation, with communication, and with communication
  /// that no computation hides.
  std::vector<double> seconds, compute, communication, exposed;
};

/// What the steps' time went to, seconds a step; parts in the order in which they come.
inline constexpr std::array<const char*, 6> kParts{"data", "forward", "backward", "wait", "optimizer", "rest"};

/// All that a run's metrics.jsonl says, in memory that does not grow with the file. Plain value.
struct Run {
  std::string path;  ///< of the file
  std::string name;  ///< for people: the folder's
  FileNotes file;
  std::vector<std::string> notes;     ///< what is wrong with the record, or missing
  std::vector<std::string> warnings;  ///< that the run gave, the first ones, each once
  double renewed = 0;                 ///< its lease, seconds since the epoch; 0: no run has the folder

  // What ran, of the last start that says so.
  std::string command_line;
  std::string version;
  std::string libtorch;
  std::string model;
  std::string data;
  std::string backend;
  std::string energy_of;  ///< what is counted on rank 0's node: "node", "processors and memory"; empty: nothing
  std::vector<std::string> hosts;
  std::vector<std::int64_t> ranks_of_hosts;
  std::int64_t training_images = 0;
  std::int64_t images_of_step = 0;
  std::int64_t steps_of_epoch = 0;
  std::int64_t epochs = 0;
  std::int64_t max_steps = 0;
  double job_ends = 0;  ///< seconds since the epoch; 0: unknown
  std::map<std::string, NamedValue> settings;
  std::map<std::string, NamedValue> environment;

  // What came of it. Of steps that a later start did again only the last time counts.
  std::vector<Start> starts;
  std::vector<TracedSteps> traces;  ///< the last ones
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  Series loss, top1, top5, learning_rate, images_per_second;
  Series gpu_load;                          ///< fraction, the mean of all ranks
  Series gpu_memory, gpu_memory_total;      ///< MiB, of the GPU with the most in use
  Series gpu_watts, images_per_joule;       ///< of all GPUs together
  Series data_wait;                         ///< fraction
  std::array<Series, kParts.size()> parts;  ///< seconds a step
  Series clock;                             ///< seconds since the first start
  Series seconds;                           ///< of the steps, as recorded: their sum is the time of all steps
  Series samples, bad_samples;              ///< images of the steps, and those left out: damaged, or not to be read
  Series valid_loss, valid_top1, valid_top5;
  Series durable, stall;  ///< seconds of each checkpoint
  Series change_seconds;  ///< of each change of the world that ranks lived on through, until the next step
  RankGrid ranks;
  std::array<double, kParts.size()> part_seconds{};  ///< of all steps, those that were lost included
  double loader_utilisation = 0;                     ///< the last one
  double validation_seconds = 0;
  double stall_seconds = 0;
  double lost_seconds = 0;  ///< steps that were done again
  std::int64_t lost_steps = 0;
  std::int64_t checkpoints = 0;
  std::int64_t failed_checkpoints = 0;
  std::int64_t left_out_checkpoints = 0;
  std::int64_t replicas = 0;         ///< copies that all neighbours had
  std::int64_t failed_replicas = 0;  ///< and those that some had not
  double replica_bytes = 0;          ///< of rank 0's part
  double replica_stall_seconds = 0;  ///< that training waited for them
  std::int64_t world_changes = 0;    ///< ranks were lost or came
  std::int64_t left_out_steps = 0;
  double peak_memory = 0;  ///< bytes, the most of any rank that is known
  double device_peak = 0;  ///< the same of a device's memory in tensors; 0: no devices
  double best_top1 = -1;   ///< of the validations; < 0: none
  std::int64_t best_step = 0;
  double now = 0;                ///< when it was read, seconds since the epoch
  std::int64_t clock_jumps = 0;  ///< records that are older than the one before them

  [[nodiscard]] double wall_seconds() const;
  [[nodiscard]] double node_hours() const;
  [[nodiscard]] double core_hours() const;
  [[nodiscard]] double joules() const;
  /// The share of the time of all starts that went into steps which count; 0 where the record does not say.
  [[nodiscard]] double goodput() const;
  /// The last start has ended by itself.
  [[nodiscard]] bool ended() const { return !starts.empty() && !starts.back().ending.empty(); }
  /// It has not ended, and its lease was renewed lately: it runs.
  [[nodiscard]] bool is_alive() const;
  /// Adds a note, unless it is there or there are many.
  void note_once(const std::string& note);
  /// The epoch that is under way, or the last one; from 1.
  [[nodiscard]] std::int64_t epoch_shown() const;
  /// Steps of all epochs, or of --max-steps; 0: unknown.
  [[nodiscard]] std::int64_t all_steps() const;
  [[nodiscard]] std::string host_of(std::size_t rank) const;
};

/// Takes the records of one run, in their order. `run` outlives it, and may be copied between two records.
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
  /// What came after `step` counts no more; < 0: unknown, and all counts.
  void take_resume(std::int64_t step);
  void find_best();
  void take_warning(const std::string& text);
  void note_time(const ReadRecord& record);
  void note_step(const ReadRecord& record);
  Start& start();

  Run& run_;
  std::map<std::int64_t, double> validated_;  ///< top-1 by step
};

/// After the last record: notes on the file, and what can be told only then.
void add_notes(Run& run, const FileNotes& file);

/// A run without records whose file is that of RUN.
[[nodiscard]] Run unread_run(const std::string& run);

/// What is known at this moment: the time, and whether a run renews its lease of the folder.
void look_at_present(Run& run);

/// The file that RUN means: metrics.jsonl in the folder of that name, or a file of that name.
[[nodiscard]] std::string record_path(const std::string& run);

/// Reads a run. Whatever its file holds, there is an answer: what is wrong is in its notes. `go_on` as in
/// RecordFile::read(). Errors: those of RecordFile.
[[nodiscard]] Result<Run> read_run(const std::string& run, const std::function<bool()>& go_on = {});

}  // namespace rollcall::report
