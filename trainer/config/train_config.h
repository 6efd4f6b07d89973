#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/checkpoint/format/options.h"
#include "trainer/checkpoint/format/retention.h"
#include "trainer/data/datasets/options.h"
#include "trainer/data/loader/options.h"
#include "trainer/data/sampling/sampler.h"
#include "trainer/device/arithmetic.h"
#include "trainer/distributed/ddp/options.h"
#include "trainer/metrics/progress_display.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"
#include "trainer/torch.h"

namespace rollcall::config {

// What the trainer's settings mean, in the types of those who use them. Made once from the table (options.h);
// nothing behind it knows a setting by its name, but for messages. Where a field says "as given", it is the setting's
// text for messages. Defaults are the table's.

/// How ranks come together.
struct ProcessGroupConfig {
  bool alone = false;           ///< --parallel=none: this process trains by itself
  std::string device = "auto";  ///< "auto", "cpu", or the name of a plugin
  device::Arithmetic arithmetic = {};
  std::string backend = "auto";  ///< "auto", "gloo", "ucx", "mpi" or "nccl"
  std::chrono::milliseconds collective_timeout{600'000};
};

struct DataConfig {
  std::string given = "fake";    ///< setting `data`, as given
  data::DataOptions datasets{};  ///< its source expanded
  /// Of the training images, without their number and the ranks. Batch size and accumulation are everybody's.
  data::SamplerOptions sampling{};
  data::LoaderOptions loading{};  ///< of both loaders; workers and pinned memory are up to the machine
  std::optional<int> train_workers = std::nullopt;  ///< nothing: as many as the machine has to spare
  std::optional<int> valid_workers = std::nullopt;
  std::string index_folder;           ///< in which indices of the data are kept; empty: nowhere
  std::int64_t benchmark_epochs = 3;  ///< passes of --benchmark-data
};

struct ModelConfig {
  std::string name = "resnet50";
  std::int64_t num_classes = 0;  ///< 0: the data's
  bool zero_init_residual = false;
  at::MemoryFormat memory_format = at::MemoryFormat::ChannelsLast;  ///< of weights and images
  std::optional<at::ScalarType> compute_type = std::nullopt;        ///< nothing: float32
};

struct OptimConfig {
  optim::OptimizerOptions optimizer{};  ///< for one rank and micro-batch
  optim::LearningRateScaling scaling = optim::LearningRateScaling::Linear;
  bool scale_optim_params = false;  ///< instead of `scaling`
  optim::ScheduleKind schedule = optim::ScheduleKind::None;
  double warmup_epochs = 0;
  double epochs_per_drop = 30;
  double drop_factor = 0.1;
  double clip_grad_norm = 0;  ///< 0: do not
  double label_smoothing = 0;
};

/// Whether a device captures a training's steps as a graph; Auto: not, until it was measured on hardware.
enum class StepGraphs { Auto, On, Off };

struct ParallelConfig {
  parallel::ReplicaOptions replica{};
  StepGraphs graphs = StepGraphs::Auto;
  bool sync_batch_norms = false;
  std::int64_t replicate_steps = 0;  ///< from one copy of the shards for a neighbour to the next; 0: none
};

struct CheckpointConfig {
  checkpoint::LoadOptions load{};  ///< its folder is also the one that is written to
  bool accept_changes = false;     ///< go on from a checkpoint of a training that other settings defined
  double lease_timeout = 60;       ///< seconds
  std::string init_from{};         ///< path of a checkpoint; empty: none
  std::string stage{};             ///< folder in which checkpoints are made first; empty: none
  std::string stage_given{};       ///< as given
  std::int64_t every_epochs = 1;   ///< 0: do not
  std::int64_t every_steps = 0;    ///< 0: do not
  checkpoint::format::Retention retention{};
  std::size_t keep_best = 1;  ///< of how many validations the checkpoints are kept
  bool background = true;
  bool skip_while_saving = true;  ///< a save by `every_steps` that is due while another is under way
  checkpoint::format::ReadBack read_back = checkpoint::format::ReadBack::Memory;
  std::int64_t retries = 2;
  std::int64_t most_failures = 3;                ///< in a row; 0: any number
  std::chrono::milliseconds timeout{1'800'000};  ///< of the ranks' collectives in a save
  double save_before_limit = 0;                  ///< seconds; 0: leave that to a signal
  std::string save_before_limit_given{};         ///< as given
};

/// Steps of a training, counted from 1: 1 <= first <= last.
struct StepRange {
  std::int64_t first = 1;
  std::int64_t last = 1;
};

struct RunConfig {
  std::int64_t epochs = 120;
  std::int64_t max_steps = 0;           ///< 0: no limit
  double max_bad_samples = 0.05;        ///< share of an epoch's images
  std::int64_t max_skipped_steps = 10;  ///< in a row; 0: any number
  std::int64_t valid_epochs = 10;       ///< validate after so many epochs; 0: never
  std::uint64_t seed = 0;
  std::string folder{};  ///< of metrics.jsonl
  metrics::ProgressStyle progress = metrics::ProgressStyle::Auto;
  std::int64_t log_steps = 10;
  std::optional<double>
      rank_seconds{};  ///< between two records of each rank's times; 0: none; nothing: by their number
  bool report = true;
  bool tensorboard = false;
  std::int64_t histogram_steps = 0;  ///< tensorboard: between two histograms of the tensors; 0: none
  std::optional<StepRange> trace_steps{};
};

struct TrainConfig {
  DataConfig data;
  ModelConfig model;
  OptimConfig optim;
  ParallelConfig parallel;
  CheckpointConfig checkpoint;
  RunConfig run;
  bool accumulation_given = false;  ///< setting `grad-accumulation` is not the default
  std::string json;                 ///< all settings, for people; see settings::print_config()
  std::vector<std::string> warnings;

  [[nodiscard]] std::int64_t batch_size() const { return data.sampling.batch_size; }
  [[nodiscard]] std::int64_t grad_accumulation() const { return data.sampling.accumulation; }
};

[[nodiscard]] ProcessGroupConfig make_process_group_config(const settings::Settings& settings);

/// Errors: a ${VARIABLE} in --data is not set.
[[nodiscard]] Result<DataConfig> make_data_config(const settings::Settings& settings, const Environment& environment);

/// Error (Usage): an option has no effect beside the others, as --momentum with --optimizer=adamw; it names the value
/// that would give it one. Values of profiles and files are not asked for by whoever starts a training, and pass,
/// unless they contradict another setting, as those of --parallel=fsdp with another kind.
[[nodiscard]] Result<void> check_options_have_effect(const settings::Settings& settings);

/// Of settings that check_options_have_effect() passed. Errors (Usage): two types.
[[nodiscard]] Result<ParallelConfig> make_parallel_config(const settings::Settings& settings);

/// Everything that `settings`, of trainer_table(), decide. Folders: --checkpoint-dir and --run-dir, else below
/// $SCRATCH/rollcall/<run name>, else below ./rollcall/<run name> with a warning. The run's name is setting run-name,
/// or the job's with the number of an array's element: so a job that is submitted again finds its checkpoints, and
/// elements do not share theirs by accident. Nothing is created.
///
/// Errors: a ${VARIABLE} in a path is not set; (Usage) two types, or what
/// check_options_have_effect() refuses.
[[nodiscard]] Result<TrainConfig> make_train_config(const settings::Settings& settings, const Environment& environment);

}  // namespace rollcall::config
