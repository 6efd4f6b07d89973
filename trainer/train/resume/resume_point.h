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
#include "trainer/train/job_context.h"
#include "trainer/train/resume/same_training.h"

namespace rollcall::train {

/// Returns the training that `source` describes. Errors: BadData: it describes none; those of reading its values.
[[nodiscard]] Result<EarlierTraining> earlier_training_of(const checkpoint::format::CheckpointSource& source);

/// Returns the training of the first readable checkpoint that loading will try; nothing if there is none or `options`
/// say that a run starts from the beginning. Ignores unreadable checkpoints, which loading reports. Errors:
/// InputOutput: the folder cannot be listed; Mismatch: a checkpoint that the user did not name is another user's or of
/// a newer format.
[[nodiscard]] Result<std::optional<EarlierTraining>> find_earlier_training(const checkpoint::LoadOptions& options);

/// Returns whether this is a job that Slurm restarted and that has saved: the records of its run's folder say so, or a
/// checkpoint in its staging directory or folder is its own. Such a job resumes from the newest checkpoint of its user,
/// although --resume says where its first start was to begin, and whatever others have put beside it. For rank 0 only.
/// Errors: those of recorded_saves(); a checkpoint cannot be read, so that its owner is unknown.
[[nodiscard]] Result<bool> restarted_job_continues(const config::TrainConfig& config, const Environment& environment);

/// Warns if the order of the images changed (another seed or shuffle window) in the epoch in whose middle `earlier` was
/// saved: its position is kept, so that images are seen twice and others not at all. The warning gives their number.
/// `now`: options of the training data. Examines the place of every image: seconds for many millions. Pure.
void warn_of_other_order(const EarlierTraining& earlier, const data::SamplerOptions& now,
                         std::vector<std::string>& warnings);

/// The start of a run.
struct ResumePoint {
  std::optional<EarlierTraining> earlier = {};  ///< on rank 0; unset: the run starts from the beginning
  /// Images of a step that the training requested at its start; 0: the current number.
  std::int64_t images_asked = 0;
};

/// Looks for the training from which a run resumes, unless the ranks have it `in_memory`. `given_resume`: setting
/// resume as given. If there is none, the run may start from the beginning (check_none_lost()); if something is left to
/// train, a restarted job may try (check_progress_made()). A checkpoint of another training (config::changes()) is
/// accepted only with --resume=continue-with-changes or --resume=FILE.
///
/// A restarted job resumes from its own checkpoints. With another number of ranks a training uses the accumulation that
/// keeps the images of a step, unless the user gave one; `settings` and `config`, which was made of them, are changed
/// accordingly. `warnings` gets what cannot be determined, what was lost, and differences that are accepted.
/// Collective. Errors: Mismatch: it is another training; Unavailable: a peer was lost; those of
/// restarted_job_continues(), find_earlier_training(), check_none_lost() and check_progress_made().
[[nodiscard]] Result<ResumePoint> find_resume_point(Result<std::optional<EarlierTraining>> in_memory,
                                                    const std::string& given_resume, settings::Settings& settings,
                                                    config::TrainConfig& config, const Environment& environment,
                                                    const JobContext& context, std::vector<std::string>& warnings);

/// Checks the training of `loaded` if loading used another file than find_resume_point() examined, because that was
/// damaged or could not be read at that moment. For rank 0 only. Errors: those of find_resume_point().
[[nodiscard]] Result<void> confirm_resume_point(ResumePoint& point, const std::string& loaded,
                                                const settings::Settings& settings, const config::TrainConfig& config,
                                                const JobContext& context, std::vector<std::string>& warnings);

/// Returns the progress of a run that starts from the beginning. `images_asked`: images of a step that the training
/// requested at its start; 0: the current number, which ranks that do not divide the requested number may have changed.
[[nodiscard]] checkpoint::Progress first_progress(const config::TrainConfig& config, const data::Datasets& datasets,
                                                  const JobContext& context, std::int64_t images_asked = 0);

/// How a run resumes from a checkpoint.
struct Continued {
  std::string note = {};       ///< further text for people about its steps: "; ...", or empty
  bool ends_an_epoch = false;  ///< the checkpoint is of an epoch's last step, so that only the epoch's end remains
  bool is_finished = false;    ///< nothing is left to do
};

/// Moves `progress` of a run that starts from the beginning to the position `stored` in a checkpoint, but keeps what
/// belongs to this run. `warnings` gets further messages. Errors (Mismatch): the position is in other data.
[[nodiscard]] Result<Continued> continue_at(checkpoint::Progress& progress, const checkpoint::Progress& stored,
                                            const config::TrainConfig& config, const data::Datasets& datasets,
                                            const JobContext& context, std::vector<std::string>& warnings);

}  // namespace rollcall::train
