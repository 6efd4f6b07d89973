#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/progress.h"
#include "trainer/config/train_config.h"
#include "trainer/data/sampling/sampler.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// What the checkpoint that a run will go on from says of its training, known before anything is built or loaded.
struct EarlierTraining {
  std::string path;
  checkpoint::Progress progress;
  std::string config_json;  ///< TrainConfig::json of the run that wrote it
  std::string job;          ///< Slurm's number of the job that wrote it; empty: none
};

/// What `source` says. Errors: BadData: nothing; those of reading its values.
[[nodiscard]] Result<EarlierTraining> earlier_training_of(const checkpoint::format::CheckpointSource& source);

/// The first that can be read of those that loading will look at; nothing where there is none, or `options` say that a
/// run begins afresh. A checkpoint that cannot be read is none here: loading it tells. Errors: InputOutput: the folder
/// cannot be listed; Mismatch: it was not named by the user and is another user's, or is of a newer format.
[[nodiscard]] Result<std::optional<EarlierTraining>> find_earlier_training(const checkpoint::LoadOptions& options);

/// Whether this is a job that Slurm restarted, and that has saved: the records of its run's folder tell of it, or a
/// checkpoint in its stage or folder is its own. Then it goes on from the newest checkpoint of its user, though
/// --resume says where its first start was to begin, and whatever others have put beside it. Rank 0's to call. Errors:
/// those of recorded_saves(); a checkpoint cannot be read, so that it is not known whose it is.
[[nodiscard]] Result<bool> restarted_job_goes_on(const config::TrainConfig& config, const Environment& environment);

/// Whether `settings`, of which `config` was made, mean the training that `earlier` is of (config::changes()).
/// `warnings` gets what is different and accepted: --resume=continue-with-changes and --resume=FILE accept all.
///
/// Errors (Mismatch): it is another training; names each difference and the ways on.
[[nodiscard]] Result<void> check_same_training(const EarlierTraining& earlier, const settings::Settings& settings,
                                               const config::TrainConfig& config, const World& world,
                                               std::vector<std::string>& warnings);

/// What another order of the images (another seed or window of shuffling) means for the epoch in whose middle `earlier`
/// was saved: its position is kept, so that images come a second time and others not at all, which is told by number;
/// an empty text where the order is the same. `now` is of the training data. Looks at every image's place: seconds for
/// many millions. Pure.
[[nodiscard]] std::string other_order_warning(const EarlierTraining& earlier, const data::SamplerOptions& now);

/// Whether no step and no validation is left of `config`'s training; the end of an epoch may be. Pure.
[[nodiscard]] bool is_at_end(const checkpoint::Progress& progress, const config::TrainConfig& config);

/// What rank 0 finds to go on from.
struct LookBack {
  std::optional<EarlierTraining> earlier{};
  bool from_own_job = false;  ///< restarted_job_goes_on()
};

/// Looks for what a run of `config` goes on from and, where there is nothing, whether it may begin (check_none_lost());
/// and, where something is left to train, whether a job that was started again may try (check_comes_further()).
/// `given_resume`: setting resume as given. `warnings` gets what cannot be known, and what was lost. Rank 0's to call.
/// Errors: those of restarted_job_goes_on(), find_earlier_training(), check_none_lost() and check_comes_further().
[[nodiscard]] Result<LookBack> look_back(const config::TrainConfig& config, const std::string& given_resume,
                                         const Environment& environment, std::vector<std::string>& warnings);

/// What rank 0 found out and all ranks go by.
struct GoingOn {
  std::int64_t images_of_step = 0;  ///< of the checkpoint, as asked for, over all ranks; 0: a run begins afresh
  std::int64_t images_had = 0;      ///< those that its ranks made of it
  bool same_batch_size = false;     ///< --batch-size is the checkpoint's
  bool from_own_job = false;        ///< restarted_job_goes_on()
};

/// Rank 0's. Collective. Errors (Unavailable): a peer was lost.
[[nodiscard]] Result<GoingOn> share(const GoingOn& mine, const World& world);

/// What all ranks go by where rank 0 has found `found`.
[[nodiscard]] GoingOn going_on(const LookBack& found, const config::TrainConfig& config);

/// Images of a step that were asked for in the training of the checkpoint, over all ranks; 0 for nothing.
[[nodiscard]] std::int64_t images_of_step(const std::optional<EarlierTraining>& earlier);

}  // namespace rollcall::train
