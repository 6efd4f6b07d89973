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

/// What another order of the images (another seed or window of shuffling) means for the epoch in whose middle `earlier`
/// was saved: its position is kept, so that images come a second time and others not at all, which is told by number;
/// nothing where the order is the same. `now` is of the training data. Looks at every image's place: seconds for many
/// millions. Pure.
void warn_of_other_order(const EarlierTraining& earlier, const data::SamplerOptions& now,
                         std::vector<std::string>& warnings);

/// Whether no step and no validation is left of `config`'s training; the end of an epoch may be. Pure.
[[nodiscard]] bool is_at_end(const checkpoint::Progress& progress, const config::TrainConfig& config);

/// What a run begins with.
struct ResumePoint {
  std::optional<EarlierTraining> earlier = {};  ///< rank 0's; nothing: a run begins afresh
  std::int64_t images_asked = 0;                ///< of a step, that the training asks for from its start; 0: now's
};

/// Looks for what a run goes on from, unless the ranks have it `in_memory`. Where there is nothing, the run may begin
/// (check_none_lost()); where something is left to train, a job that was started again may try
/// (check_comes_further()). A checkpoint of another training is none to go on from (config::changes()), unless
/// --resume=continue-with-changes or --resume=FILE accept it.
///
/// A restarted job goes on from its own checkpoints; and with other ranks a training takes the accumulation that keeps
/// the images of a step, where nobody gave one: `settings` and `config`, which was made of them, become so. `warnings`
/// gets what cannot be known, what was lost, and what is different and accepted. Collective. Errors: Mismatch: it is
/// another training; Unavailable: a peer was lost; those of restarted_job_goes_on(), find_earlier_training(),
/// check_none_lost() and check_comes_further().
[[nodiscard]] Result<ResumePoint> find_resume_point(Result<std::optional<EarlierTraining>> in_memory,
                                                    settings::Settings& settings, config::TrainConfig& config,
                                                    const Environment& environment, const World& world,
                                                    std::vector<std::string>& warnings);

/// The file that find_resume_point() judged may have turned out damaged, and `loaded`, the one before it, be another
/// training's; or it could read none at that moment. Rank 0's to call. Errors: those of find_resume_point().
[[nodiscard]] Result<void> confirm_resume_point(ResumePoint& point, const std::string& loaded,
                                                const settings::Settings& settings, const config::TrainConfig& config,
                                                const World& world, std::vector<std::string>& warnings);

/// Rank 0's numbers on all ranks, which give equally many. Collective. Errors (Unavailable): a peer was lost.
[[nodiscard]] Result<std::vector<std::int64_t>> of_rank_zero(const std::vector<std::int64_t>& mine, const World& world);

}  // namespace rollcall::train
