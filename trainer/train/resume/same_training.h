#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/checkpoint/progress.h"
#include "trainer/config/train_config.h"
#include "trainer/data/datasets/datasets.h"
#include "trainer/train/job_context.h"

// Compares the training of a checkpoint with a run's settings: its definition, its steps and its data.
namespace rollcall::train {

/// The training of the checkpoint from which a run will resume, known before anything is built or loaded.
struct EarlierTraining {
  std::string path;
  checkpoint::Progress progress;
  std::string config_json;  ///< TrainConfig::json of the run that wrote it
  std::string job;          ///< Slurm's number of the job that wrote it; empty: none

  /// Returns the images of a step over all ranks.
  [[nodiscard]] std::int64_t images_of_step() const { return progress.world_size * progress.batch_size; }
};

/// Checks that `settings`, of which `config` was made, define the training of `earlier` (config::changes()). `warnings`
/// gets differences that are accepted: --resume=continue-with-changes and --resume=FILE accept all.
///
/// Errors (Mismatch): it is another training; the message names each difference and the possible actions.
[[nodiscard]] Result<void> check_same_training(const EarlierTraining& earlier, const settings::Settings& settings,
                                               const config::TrainConfig& config, const JobContext& context,
                                               std::vector<std::string>& warnings);

/// The numbers that determine the images of one step of the optimizer.
struct StepSize {
  std::int64_t world_size = 1;
  std::int64_t batch_size = 1;    ///< images of one rank in one micro-batch
  std::int64_t accumulation = 1;  ///< micro-batches of one rank in a step
  std::int64_t global_batch = 0;  ///< --global-batch; 0: not given

  /// Returns the images of a step over all ranks.
  [[nodiscard]] std::int64_t images() const { return world_size * batch_size * accumulation; }
  friend bool operator==(const StepSize&, const StepSize&) = default;
};

/// Returns the step size of a run.
[[nodiscard]] StepSize step_size(const config::TrainConfig& config, const JobContext& context);

/// Returns the number of micro-batches that give a step of `images` with these ranks and this batch size; nothing if
/// they do not divide it.
[[nodiscard]] std::optional<std::int64_t> accumulation_for(std::int64_t images, std::int64_t world_size,
                                                           std::int64_t batch_size);

/// Returns the largest batch size up to `most` with which micro-batches of these ranks give a step of `images`; nothing
/// if the ranks do not divide it.
[[nodiscard]] std::optional<std::int64_t> batch_size_for(std::int64_t images, std::int64_t world_size,
                                                         std::int64_t most);

/// Texts for people about a training that resumes with other steps than its checkpoint's. At most one is not empty.
struct StepSizeChange {
  std::string note;     ///< steps have as many images as before, composed differently
  std::string warning;  ///< steps have another number of images: how to keep it
};

/// Compares step sizes. `then`: of the checkpoint, its micro-batches counted as one. `asked`: images of a step that the
/// user requested, who got another number if the ranks did not divide it. `now.accumulation` was chosen by the user or
/// by accumulation_for().
[[nodiscard]] StepSizeChange step_size_change(const StepSize& then, std::int64_t asked, const StepSize& now);

/// Returns the identity of the data that a checkpoint stores.
[[nodiscard]] checkpoint::DataParts data_of(const data::Datasets& datasets);

/// Returns the first difference, "60 images for validation, not 50", or an empty text. Pure.
[[nodiscard]] std::string difference_of(const checkpoint::DataParts& one, const checkpoint::DataParts& other);

/// Names the images in `now` of kinds that earlier versions ignored, as an addition to a message about data with more
/// images than the training of a checkpoint had; empty if there are none. Examines each name: seconds for many
/// millions. Pure.
[[nodiscard]] std::string read_since_text(const data::Datasets& now);

/// Whether a training may resume with other data than its checkpoint's: only names or labels differ, and the user has
/// accepted it.
enum class OtherData { Refuse, Accept };

/// Compares the data of a checkpoint's training with the data that `given` (--data) has now: the number of all images
/// before they are split, the names of classes (if they were more than numbers), the labels and names of the images,
/// and the same of the validation images, which select the best checkpoint. `warnings` gets accepted differences, and
/// that a file of an earlier version does not have this information. Pure.
///
/// Errors (Mismatch): the number of training images differs; names, labels or validation images differ, and
/// OtherData::Refuse is set or the seed splits the data, so that images would be trained on that were used for
/// validation.
[[nodiscard]] Result<void> check_same_data(const checkpoint::DataParts& then, const data::Datasets& now,
                                           const std::string& given, OtherData other,
                                           std::vector<std::string>& warnings);

/// Returns whether the checkpoint's training is known to have had other validation images than `now`, so that their
/// results cannot be compared. Pure.
[[nodiscard]] bool validates_otherwise(const checkpoint::DataParts& then, const data::Datasets& now);

}  // namespace rollcall::train
