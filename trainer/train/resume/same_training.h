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
#include "trainer/train/world.h"

// Whether a checkpoint is of the training that a run's settings mean: its definition, its steps, its data.
namespace rollcall::train {

/// What the checkpoint that a run will go on from says of its training, known before anything is built or loaded.
struct EarlierTraining {
  std::string path;
  checkpoint::Progress progress;
  std::string config_json;  ///< TrainConfig::json of the run that wrote it
  std::string job;          ///< Slurm's number of the job that wrote it; empty: none

  /// Images of a step that its ranks made up, over all of them.
  [[nodiscard]] std::int64_t images_of_step() const { return progress.world_size * progress.batch_size; }
};

/// Whether `settings`, of which `config` was made, mean the training that `earlier` is of (config::changes()).
/// `warnings` gets what is different and accepted: --resume=continue-with-changes and --resume=FILE accept all.
///
/// Errors (Mismatch): it is another training; names each difference and the ways on.
[[nodiscard]] Result<void> check_same_training(const EarlierTraining& earlier, const settings::Settings& settings,
                                               const config::TrainConfig& config, const World& world,
                                               std::vector<std::string>& warnings);

/// What the images of one step of the optimizer are made up of.
struct StepSize {
  std::int64_t world_size = 1;
  std::int64_t batch_size = 1;    ///< images of one rank in one micro-batch
  std::int64_t accumulation = 1;  ///< micro-batches of one rank in a step

  /// Of all ranks.
  [[nodiscard]] std::int64_t images() const { return world_size * batch_size * accumulation; }
  friend bool operator==(const StepSize&, const StepSize&) = default;
};

/// A run's.
[[nodiscard]] StepSize step_size(const config::TrainConfig& config, const World& world);

/// How many micro-batches give a step of `images` with these ranks and this batch size; nothing where it does not
/// divide.
[[nodiscard]] std::optional<std::int64_t> accumulation_for(std::int64_t images, std::int64_t world_size,
                                                           std::int64_t batch_size);

/// The largest batch size up to `most` with which micro-batches of these ranks can make up a step of `images`; nothing
/// where the ranks do not divide it.
[[nodiscard]] std::optional<std::int64_t> batch_size_for(std::int64_t images, std::int64_t world_size,
                                                         std::int64_t most);

/// What people are told of a training that goes on with other steps than its checkpoint's. At most one is not empty.
struct StepSizeChange {
  std::string note;     ///< steps have as many images as before, made up otherwise
  std::string warning;  ///< they have not: how to keep them
};

/// `then`: of the checkpoint, its micro-batches counted as one. `asked`: images of a step that its user asked for, who
/// had others where the ranks did not divide them. `now.accumulation` was chosen by the user or suits
/// (accumulation_for()).
[[nodiscard]] StepSizeChange step_size_change(const StepSize& then, std::int64_t asked, const StepSize& now);

/// What a checkpoint keeps of the data.
[[nodiscard]] checkpoint::DataParts data_of(const data::Datasets& datasets);

/// What is different, "60 images for validation, not 50", or an empty text. Pure.
[[nodiscard]] std::string difference_of(const checkpoint::DataParts& one, const checkpoint::DataParts& other);

/// Names the pictures that `now` has of kinds which earlier versions left out, to be put behind what is said of data
/// with more images than a checkpoint's training had; an empty text where there are none. Looks at each name: seconds
/// for many millions. Pure.
[[nodiscard]] std::string read_since_text(const data::Datasets& now);

/// Whether a checkpoint's training may go on with other data than it had: they differ in names or labels alone, and the
/// user has said so.
enum class OtherData { Refuse, Accept };

/// Compares the data of a checkpoint's training with what `given` (--data) is now: the number of all images, before
/// they are split, the classes' names (where they were more than numbers), the pictures' labels and names; those of the
/// validation images too, by which the best checkpoint is chosen. `warnings` gets what is accepted, and that a file of
/// an earlier version does not say. Pure.
///
/// Errors (Mismatch): another number of training images; other names or labels, or other validation images, where
/// OtherData::Refuse says so or the seed splits the data: pictures would be trained on that validated.
[[nodiscard]] Result<void> check_same_data(const checkpoint::DataParts& then, const data::Datasets& now,
                                           const std::string& given, OtherData other,
                                           std::vector<std::string>& warnings);

/// Whether the data of a checkpoint's training are known to have had other validation images than `now`, so that their
/// results cannot be compared. Pure.
[[nodiscard]] bool validates_otherwise(const checkpoint::DataParts& then, const data::Datasets& now);

}  // namespace rollcall::train
