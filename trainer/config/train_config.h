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
#include "trainer/model/resnet_shapes.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"
#include "trainer/torch.h"

namespace rollcall::config {

// The values of the trainer's settings, in the types of the code that uses them. They are made once from the table
// (options.h). Later code uses names of settings only in messages. A field "as given" is the setting's text for
// messages. Defaults are those of the table.

/// How the process group is made.
struct ProcessGroupConfig {
  bool alone = false;           ///< --parallel=none: this process trains by itself
  std::string device = "auto";  ///< "auto", "cpu", or the name of a plugin
  device::Arithmetic arithmetic = {};
  std::string backend = "auto";  ///< "auto", "gloo", "ucx", "mpi" or "nccl"
  std::chrono::milliseconds collective_timeout{600'000};
};

struct DataConfig {
  std::string given;             ///< setting `data`, as given
  data::DataOptions datasets{};  ///< with the expanded path of the source
  /// Sampling of the training images, without their number and the ranks. Batch size and accumulation hold for all.
  data::SamplerOptions sampling{};
  bool balanced = false;          ///< --sampling=balanced
  std::int64_t global_batch = 0;  ///< images per step as given, see apply_global_batch(); 0: not given
  data::LoaderOptions loading{};  ///< for both loaders; workers and pinned memory depend on the machine
  std::optional<data::PixelType> pixel_type = std::nullopt;  ///< unset: by the device
  std::optional<int> train_workers = std::nullopt;           ///< unset: as many as the machine has free CPUs for
  std::optional<int> valid_workers = std::nullopt;
  std::string index_folder;           ///< folder for the indices of the data; empty: none
  std::int64_t benchmark_epochs = 3;  ///< passes of --benchmark-data
};

struct ModelConfig {
  std::string name = "resnet50";
  std::string script{};               ///< path of a TorchScript file instead of the network `name`; empty: none
  std::int64_t num_classes = 0;       ///< 0: the number of classes in the data
  model::ResNetOptions resnet{};      ///< without `num_classes`
  std::vector<std::string> frozen{};  ///< beginnings of the names of parameters that are not trained
  at::MemoryFormat memory_format = at::MemoryFormat::ChannelsLast;  ///< memory format of weights and images
  std::optional<at::ScalarType> compute_type = std::nullopt;        ///< unset: float32
};

struct LossConfig {
  bool binary = false;  ///< binary cross entropy of each class, the mean over the classes; false: cross entropy
  double label_smoothing = 0;
  std::string class_weights = "none";  ///< "none", "balanced" or a path
  double target_threshold = 0;         ///< of binary cross entropy: targets are 1 above it, else 0; 0: they stay
};

/// A factor of the learning rate of some layers.
struct RateFactor {
  std::string layer;  ///< beginning of the names of their parameters
  double factor = 1;
};

struct OptimConfig {
  optim::OptimizerOptions optimizer{};  ///< values for one rank and micro-batch
  optim::LearningRateScaling scaling = optim::LearningRateScaling::Linear;
  bool scale_optim_params = false;  ///< replaces `scaling`
  std::vector<RateFactor> rate_factors{};
  optim::ScheduleKind schedule = optim::ScheduleKind::None;
  double warmup_epochs = 0;
  double warmup_start_factor = 0;
  double end_factor = 0;
  double power = 2;
  double epochs_per_drop = 30;
  std::vector<double> milestones{30, 60, 80};  ///< epochs
  double drop_factor = 0.1;
  double clip_grad_norm = 0;  ///< 0: no limit
  double ema_decay = 0;       ///< 0: no average of the weights
  std::int64_t ema_steps = 1;
  LossConfig loss{};
};

/// Whether a device captures the steps of a training as a graph. Auto means off until it was measured on hardware.
enum class StepGraphs { Auto, On, Off };

struct ParallelConfig {
  parallel::ReplicaOptions replica{};
  StepGraphs graphs = StepGraphs::Auto;
  bool sync_batch_norms = false;
  std::int64_t replicate_steps = 0;  ///< steps between two replicas of the shards; 0: none
};

struct CheckpointConfig {
  checkpoint::LoadOptions load{};  ///< checkpoints are also written to its folder
  bool accept_changes = false;     ///< continue from a checkpoint of a training with other settings
  double lease_timeout = 60;       ///< seconds
  std::string init_from{};         ///< path of a checkpoint; empty: none
  std::string evaluate{};          ///< path of weights to evaluate instead of training; empty: none
  std::string stage{};             ///< folder where checkpoints are written first; empty: none
  std::string stage_given{};       ///< as given
  std::int64_t every_epochs = 1;   ///< epochs between two saves; 0: none
  std::int64_t every_steps = 0;    ///< steps between two saves; 0: none
  checkpoint::format::Retention retention{};
  std::size_t keep_best = 1;  ///< number of best validations whose checkpoints are kept
  bool background = true;
  bool skip_while_saving = true;  ///< skip a save by `every_steps` while another is being written; false: wait
  checkpoint::format::ReadBack read_back = checkpoint::format::ReadBack::Memory;
  std::int64_t retries = 2;
  std::int64_t most_failures = 3;                ///< failed saves in a row that are allowed; 0: no limit
  std::chrono::milliseconds timeout{1'800'000};  ///< for the collectives of a save
  double save_before_limit = 0;                  ///< seconds before the job's time limit; 0: only on a signal
  std::string save_before_limit_given{};         ///< as given
};

/// A range of steps, counted from 1: 1 <= first <= last.
struct StepRange {
  std::int64_t first = 1;
  std::int64_t last = 1;
};

struct RunConfig {
  std::int64_t epochs = 120;
  std::int64_t max_steps = 0;           ///< 0: no limit
  double max_bad_samples = 0.05;        ///< largest share of an epoch's images that may be unreadable
  std::int64_t max_skipped_steps = 10;  ///< in a row; 0: no limit
  std::int64_t early_stopping = 0;      ///< validations without a better one that end the training; 0: none
  std::int64_t valid_epochs = 10;       ///< epochs between two validations; 0: none
  bool valid_flip = false;              ///< validate with the mean of the outputs for an image and its mirror image
  std::uint64_t seed = 0;
  std::string folder{};  ///< folder of metrics.jsonl
  metrics::ProgressStyle progress = metrics::ProgressStyle::Auto;
  std::int64_t log_steps = 10;
  std::optional<double> rank_seconds{};  ///< seconds between two records of the times of each rank; 0: none; unset: by
                                         ///< the number of ranks
  bool report = true;
  bool tensorboard = false;
  std::int64_t histogram_steps = 0;  ///< steps between two histograms for TensorBoard; 0: none
  std::optional<StepRange> trace_steps{};
};

struct TrainConfig {
  DataConfig data;
  ModelConfig model;
  OptimConfig optim;
  ParallelConfig parallel;
  CheckpointConfig checkpoint;
  RunConfig run;
  bool accumulation_given = false;  ///< `grad-accumulation` was given
  std::string json;                 ///< all settings; see settings::print_config()
  std::vector<std::string> warnings;

  [[nodiscard]] std::int64_t batch_size() const { return data.sampling.batch_size; }
  [[nodiscard]] std::int64_t grad_accumulation() const { return data.sampling.accumulation; }
};

[[nodiscard]] ProcessGroupConfig make_process_group_config(const settings::Settings& settings);

/// Returns $SCRATCH; empty if it is not set. Error: it is not an absolute path.
[[nodiscard]] Result<std::string> scratch_of(const Environment& environment, const std::string& setting);

[[nodiscard]] inline std::uint64_t seed_of(const settings::Settings& settings) {
  return static_cast<std::uint64_t>(settings.integer("seed"));
}

/// Errors: a ${VARIABLE} in --data is not set.
[[nodiscard]] Result<DataConfig> make_data_config(const settings::Settings& settings, const Environment& environment);

/// What the configuration is for. A setting `evaluate` means inference too.
enum class Use { Training, Inference };

/// Refuses an option that has no effect with the other settings, such as --momentum with --optimizer=adamw. The error
/// (Usage) names the value that would give it an effect. Values of profiles and files are accepted, since the user did
/// not ask for them, unless they contradict another setting. Inference accepts any with its loss, which it does not
/// use.
[[nodiscard]] Result<void> check_options_have_effect(const settings::Settings& settings, Use use = Use::Training);

/// Makes the configuration of settings that check_options_have_effect() accepted. Error (Usage): two types contradict.
[[nodiscard]] Result<ParallelConfig> make_parallel_config(const settings::Settings& settings);

/// Makes the whole configuration from `settings`, of trainer_table(). Its folders are --checkpoint-dir and --run-dir,
/// otherwise $SCRATCH/rollcall/<run name>, otherwise ./rollcall/<run name> with a warning. The run name is the setting
/// run-name, or the name of the job with the number of an array's element. So a job that is submitted again finds its
/// checkpoints, and elements do not share theirs by accident. Nothing is created.
///
/// Errors: a ${VARIABLE} in a path is not set; (Usage) two types contradict, or check_options_have_effect() refuses.
[[nodiscard]] Result<TrainConfig> make_train_config(const settings::Settings& settings, const Environment& environment,
                                                    Use use = Use::Training);

}  // namespace rollcall::config
