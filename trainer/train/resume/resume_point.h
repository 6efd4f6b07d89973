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
#include "trainer/train/resume/same_training.h"
#include "trainer/train/world.h"

namespace rollcall::train {

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

/// What a run begins with.
struct ResumePoint {
  std::optional<EarlierTraining> earlier = {};  ///< rank 0's; nothing: a run begins afresh
  std::int64_t images_asked = 0;                ///< of a step, that the training asks for from its start; 0: now's
};

/// Looks for what a run goes on from, unless the ranks have it `in_memory`. `given_resume`: setting resume as given.
/// Where there is nothing, the run may begin (check_none_lost()); where something is left to train, a job that was
/// started again may try (check_comes_further()). A checkpoint of another training is none to go on from
/// (config::changes()), unless --resume=continue-with-changes or --resume=FILE accept it.
///
/// A restarted job goes on from its own checkpoints; and with other ranks a training takes the accumulation that keeps
/// the images of a step, where nobody gave one: `settings` and `config`, which was made of them, become so. `warnings`
/// gets what cannot be known, what was lost, and what is different and accepted. Collective. Errors: Mismatch: it is
/// another training; Unavailable: a peer was lost; those of restarted_job_goes_on(), find_earlier_training(),
/// check_none_lost() and check_comes_further().
[[nodiscard]] Result<ResumePoint> find_resume_point(Result<std::optional<EarlierTraining>> in_memory,
                                                    const std::string& given_resume, settings::Settings& settings,
                                                    config::TrainConfig& config, const Environment& environment,
                                                    const World& world, std::vector<std::string>& warnings);

/// The file that find_resume_point() judged may have turned out damaged, and `loaded`, the one before it, be another
/// training's; or it could read none at that moment. Rank 0's to call. Errors: those of find_resume_point().
[[nodiscard]] Result<void> confirm_resume_point(ResumePoint& point, const std::string& loaded,
                                                const settings::Settings& settings, const config::TrainConfig& config,
                                                const World& world, std::vector<std::string>& warnings);

/// Where a fresh run begins. `images_asked`: of a step, that the training asks for from its start; 0: now's, which
/// ranks that do not divide that number may have made of it.
[[nodiscard]] checkpoint::Progress first_progress(const config::TrainConfig& config, const data::Datasets& datasets,
                                                  const World& world, std::int64_t images_asked = 0);

/// How a run goes on from a checkpoint.
struct Continued {
  std::string note = {};       ///< what else people are told of its steps: "; ...", or empty
  bool ends_an_epoch = false;  ///< the checkpoint is of an epoch's last step, and only the epoch's end is left of it
  bool is_finished = false;    ///< nothing is left to do
};

/// Takes `progress`, where a fresh run begins, to the place that a checkpoint has `stored`; what is this run's stays.
/// `warnings` gets what else people should know. Errors (Mismatch): it counts in other data.
[[nodiscard]] Result<Continued> continue_at(checkpoint::Progress& progress, const checkpoint::Progress& stored,
                                            const config::TrainConfig& config, const data::Datasets& datasets,
                                            const World& world, std::vector<std::string>& warnings);

}  // namespace rollcall::train
