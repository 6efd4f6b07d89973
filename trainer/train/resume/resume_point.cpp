#include "trainer/train/resume/resume_point.h"

#include <fmt/format.h>
#include <filesystem>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/read_plan.h"
#include "trainer/config/identity.h"
#include "trainer/train/object_collectives.h"
#include "trainer/train/resume/lost_checkpoints.h"

namespace rollcall::train {
namespace {

Result<std::vector<checkpoint::format::ListedCheckpoint>> listed_for(const checkpoint::LoadOptions& options) {
  return options.passes_over_others ? checkpoint::format::list_own_checkpoints(options.folder)
                                    : checkpoint::format::list_checkpoints(options.folder);
}

/// Returns the files that loading will try, the newest first.
Result<std::vector<std::string>> candidates(const checkpoint::LoadOptions& options) {
  std::vector<std::string> paths;
  if (options.resume == "never") {
    return paths;
  }
  if (options.resume != "auto") {
    paths.push_back(options.resume);
    return paths;
  }
  ASSIGN_OR_RETURN(const auto listed, listed_for(options));
  for (const checkpoint::format::ListedCheckpoint& checkpoint : listed) {
    paths.push_back(checkpoint.path);
  }
  return paths;
}

/// Errors: those of CheckpointReader.
Result<EarlierTraining> read_earlier(const std::string& path, checkpoint::format::Owner owner) {
  ASSIGN_OR_RETURN(const auto reader, checkpoint::format::CheckpointReader::open(path, owner));
  return earlier_training_of(reader);
}

/// Returns whether a file may become readable later. A path that is gone, a folder or a dangling link is not a
/// checkpoint.
bool may_pass(const Error& error, const std::string& path) {
  std::error_code ignored;
  return error.kind == ErrorKind::InputOutput ||
         (error.kind == ErrorKind::NoInput && std::filesystem::is_regular_file(path, ignored));
}

/// Returns whether one of this user's checkpoints in `folder` was written by `job`. Errors: one cannot be read for a
/// reason that may pass.
Result<bool> holds_work_of(const std::string& job, const std::string& folder) {
  ASSIGN_OR_RETURN(const auto listed, checkpoint::format::list_own_checkpoints(folder));
  for (const checkpoint::format::ListedCheckpoint& checkpoint : listed) {
    const auto earlier = read_earlier(checkpoint.path, checkpoint::format::Owner::ThisUser);
    if (earlier && earlier->job == job) {
      return true;
    }
    if (!earlier && may_pass(earlier.error(), checkpoint.path)) {
      return earlier.error();
    }
  }
  return false;
}

/// Returns whether no step and no validation is left of `config`'s training; the end of an epoch may be left.
bool is_at_end(const checkpoint::Progress& progress, const config::TrainConfig& config) {
  const bool steps_done = config.run.max_steps > 0 && progress.global_step >= config.run.max_steps;
  return (steps_done || progress.epoch >= config.run.epochs) && progress.validation_due == 0;
}

/// Implements restarted_job_continues() from the records in `saves`.
Result<bool> continues_own_work(const config::TrainConfig& config, const Restart& restart,
                                const Result<RecordedSaves>& saves) {
  if (restart.is_first()) {
    return false;
  }
  RETURN_IF_ERROR(saves);
  if (saves->of_restart >= 0) {
    return true;
  }
  if (restart.job.empty()) {
    return false;
  }
  const Result<bool> staged =
      config.checkpoint.stage.empty() ? false : holds_work_of(restart.job, config.checkpoint.stage);
  return staged && !*staged ? holds_work_of(restart.job, config.checkpoint.load.folder) : staged;
}

}  // namespace

Result<EarlierTraining> earlier_training_of(const checkpoint::format::CheckpointSource& source) {
  ASSIGN_OR_RETURN(auto values, source.values());
  const checkpoint::OpenCheckpoint stored(source, std::move(values));
  ASSIGN_OR_RETURN(checkpoint::Progress progress, checkpoint::read_progress(stored));
  const auto text = [&](const char* name) {
    const auto* const value = stored.value<std::string>(name);
    return value == nullptr ? std::string() : *value;
  };
  return EarlierTraining{source.path(), std::move(progress), text("/config/json"), text("/config/slurm_job")};
}

Result<std::optional<EarlierTraining>> find_earlier_training(const checkpoint::LoadOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, candidates(options));
  using checkpoint::format::Owner;
  for (const std::string& path : paths) {
    Result<EarlierTraining> earlier = read_earlier(path, options.resume == "auto" ? Owner::ThisUser : Owner::Anyone);
    if (earlier) {
      return std::optional(*std::move(earlier));
    }
    if (earlier.error().kind == ErrorKind::Mismatch) {
      return earlier.error();  // loading would fail alike
    }
  }
  return std::optional<EarlierTraining>();
}

Result<bool> restarted_job_continues(const config::TrainConfig& config, const Environment& environment) {
  const Restart restart = restart_of(environment);
  return restart.is_first() ? false : continues_own_work(config, restart, recorded_saves(config, restart));
}

namespace {

/// The training from which rank 0 resumes.
struct LookBack {
  std::optional<EarlierTraining> earlier{};
  bool from_own_job = false;  ///< restarted_job_continues()
};

/// `given_resume`: setting resume as given.
Result<LookBack> look_back(const config::TrainConfig& config, const std::string& given_resume,
                           const Environment& environment, std::vector<std::string>& warnings) {
  checkpoint::LoadOptions options = config.checkpoint.load;
  const Restart restart = restart_of(environment);
  const Result<RecordedSaves> saves =
      options.resume == "auto" || !restart.is_first() ? recorded_saves(config, restart) : RecordedSaves();
  const Result<bool> own = continues_own_work(config, restart, saves);
  if (!own && options.resume != "auto") {
    return own.error();
  }
  LookBack found;
  found.from_own_job = own && *own;  // if unknown, "auto" continues and refuses other users' checkpoints
  options.resume = found.from_own_job ? "auto" : options.resume;
  options.passes_over_others = found.from_own_job;
  ASSIGN_OR_RETURN(auto earlier, find_earlier_training(options));
  found.earlier = std::move(earlier);
  const std::int64_t step = found.earlier ? found.earlier->progress.global_step : 0;
  const bool is_over = found.earlier && is_at_end(found.earlier->progress, config);
  RETURN_IF_ERROR(is_over ? Result<void>() : check_progress_made(restart, saves, step));
  if (found.earlier && options.resume == "auto") {
    warn_of_older_checkpoint(config, saves, step, warnings);
  }
  if (found.earlier) {
    return found;
  }
  ASSIGN_OR_RETURN(const auto listed, listed_for(options));  // loading reports a file that cannot be read
  RETURN_IF_ERROR(listed.empty() ? check_none_lost(config, given_resume, restart, saves, warnings) : Result<void>());
  return found;
}

/// Warns if steps keep their images on as many ranks as before, although --batch-size alone would change them.
void warn_of_accumulation(const EarlierTraining& earlier, std::int64_t kept, const config::TrainConfig& config,
                          std::int64_t ranks, std::vector<std::string>& warnings) {
  if (earlier.progress.world_size == ranks && kept != config.grad_accumulation()) {
    warnings.push_back(fmt::format(
        "a step keeps its {} images, as {} of {} for each rank; for smaller steps use "
        "--grad-accumulation=1",
        kept * ranks * config.batch_size(), counted(kept, "micro-batch", "micro-batches"), config.batch_size()));
  }
}

}  // namespace

Result<ResumePoint> find_resume_point(Result<std::optional<EarlierTraining>> in_memory, const std::string& given_resume,
                                      settings::Settings& settings, config::TrainConfig& config,
                                      const Environment& environment, const JobContext& context,
                                      std::vector<std::string>& warnings) {
  const bool lives_on = in_memory && in_memory->has_value();
  Result<LookBack> mine = LookBack();
  if (!in_memory || lives_on) {
    mine = in_memory ? Result<LookBack>(LookBack{*std::move(in_memory), true}) : in_memory.error();
  } else if (context.rank == 0) {
    mine = look_back(config, given_resume, environment, warnings);
  }
  const EarlierTraining* const earlier = mine && mine->earlier ? &*mine->earlier : nullptr;
  const bool same_batch_size = earlier != nullptr && config::setting_then(earlier->config_json, "batch-size") ==
                                                         std::to_string(config.batch_size());
  const auto shared =  // values that all ranks use
      broadcast_numbers(context.process_group,
                        {earlier != nullptr ? earlier->progress.global_batch_asked : 0,
                         earlier != nullptr ? earlier->images_of_step() : 0, std::int64_t{same_batch_size},
                         std::int64_t{mine && mine->from_own_job}});
  if (!mine || !shared) {
    return mine ? shared.error() : mine.error();
  }
  const std::int64_t images_asked = (*shared)[0];
  const std::int64_t ranks = virtual_ranks(config, context).all;
  const auto asked = accumulation_for(images_asked, ranks, config.batch_size());
  const auto kept = asked ? asked : accumulation_for((*shared)[1], ranks, config.batch_size());
  const bool from_own_job = (*shared)[3] != 0;
  ResumePoint point{.images_asked = (*shared)[2] != 0 && !config.accumulation_given ? images_asked : 0};
  if (context.rank == 0) {
    point.earlier = std::move(mine->earlier);
  }
  if (from_own_job && config.checkpoint.load.resume != "auto") {
    RETURN_IF_ERROR(settings.set("resume", "auto", "the checkpoint"));
  }
  if (kept && !config.accumulation_given) {
    if (point.earlier) {
      warn_of_accumulation(*point.earlier, *kept, config, ranks, warnings);
    }
    RETURN_IF_ERROR(settings.set("grad-accumulation", std::to_string(*kept), "the checkpoint"));
  }
  ASSIGN_OR_RETURN(config, config::make_train_config(settings, environment));
  config.checkpoint.load.passes_over_others = from_own_job;
  RETURN_IF_ERROR(point.earlier ? check_same_training(*point.earlier, settings, config, context, warnings)
                                : Result<void>());
  return point;
}

Result<void> confirm_resume_point(ResumePoint& point, const std::string& loaded, const settings::Settings& settings,
                                  const config::TrainConfig& config, const JobContext& context,
                                  std::vector<std::string>& warnings) {
  if (loaded.empty() || (point.earlier && loaded == point.earlier->path)) {
    return {};
  }
  ASSIGN_OR_RETURN(point.earlier, find_earlier_training({.resume = loaded, .folder = {}}));
  if (!point.earlier) {
    return fail("--resume", loaded,
                "was loaded but cannot be read again, so it is unknown whether it is of this training",
                "checking the file system, then submitting again", ErrorKind::InputOutput);
  }
  return check_same_training(*point.earlier, settings, config, context, warnings);
}

void warn_of_other_order(const EarlierTraining& earlier, const data::SamplerOptions& now,
                         std::vector<std::string>& warnings) {
  const checkpoint::Progress& progress = earlier.progress;
  const std::int64_t size = now.dataset_size;
  const std::int64_t done = progress.sample_position;
  const std::string window = config::setting_then(earlier.config_json, "shuffle-window");
  data::EpochOrderOptions options{.size = size, .seed = now.seed, .shuffle = now.shuffle, .window = now.window};
  const auto epoch = static_cast<std::uint64_t>(progress.epoch);
  options.seed = progress.seed;
  options.window = parse_integer<std::int64_t>(window).value_or(now.window);
  if (done <= 0 || done >= size || (options.seed == now.seed && options.window == now.window)) {
    return;
  }
  data::EpochOrder order_then(options, epoch);
  options.seed = now.seed;
  options.window = now.window;
  data::EpochOrder order(options, epoch);
  std::vector<bool> seen(static_cast<std::size_t>(size));
  for (std::int64_t position = 0; position < done; ++position) {
    seen[static_cast<std::size_t>(order_then(position))] = true;
  }
  std::int64_t again = 0;
  for (std::int64_t position = done; position < size; ++position) {
    again += seen[static_cast<std::size_t>(order(position))] ? 1 : 0;
  }
  warnings.push_back(
      fmt::format("epoch {} continues in the order of another --seed or --shuffle-window: of its {} remaining images, "
                  "{} were seen in "
                  "it before, and as many others are not seen in it; the next epoch has each image once",
                  progress.epoch + 1, size - done, again));
}

checkpoint::Progress first_progress(const config::TrainConfig& config, const data::Datasets& datasets,
                                    const JobContext& context, std::int64_t images_asked) {
  checkpoint::Progress progress;
  progress.world_size = virtual_ranks(config, context).all;
  progress.batch_size = config.batch_size() * config.grad_accumulation();
  progress.global_batch_asked = images_asked > 0 ? images_asked : progress.world_size * progress.batch_size;
  progress.seed = config.run.seed;
  progress.dataset_size = datasets.train->size();
  progress.data = data_of(datasets);
  return progress;
}

namespace {

/// Checks that the position is in an order of `dataset_size` images; in another data set it means nothing. Returns
/// whether only the end of its epoch is left.
Result<bool> keep_position(checkpoint::Progress& progress, std::int64_t dataset_size, const config::TrainConfig& config,
                           const data::Datasets& datasets) {
  const std::int64_t images_of_step = progress.world_size * progress.batch_size;
  // Files of earlier versions do not store the number of images, and count the last step's padding.
  const bool other = progress.dataset_size > 0 ? progress.dataset_size != dataset_size
                                               : progress.sample_position >= dataset_size + images_of_step;
  if (other) {
    const std::string before = progress.dataset_size > 0 ? fmt::format("{}", progress.dataset_size) : "more";
    const bool more = progress.dataset_size > 0 && progress.dataset_size < dataset_size;
    return fail("--data", config.data.given,
                fmt::format("has {} training images, but the checkpoint of step {} is of a training with {}{}",
                            dataset_size, progress.global_step, before, more ? read_since_text(datasets) : ""),
                "using the data set of that training, or changing --run-name or --checkpoint-dir and adding "
                "--init-from=FILE to start from its weights",
                ErrorKind::Mismatch);
  }
  progress.dataset_size = dataset_size;
  progress.sample_position = std::min(progress.sample_position, dataset_size);
  // In steps of the run that wrote it: this run's may be larger and leave out more images.
  const std::int64_t left = dataset_size - progress.sample_position;
  return progress.step_in_epoch > 0 && left < (config.data.sampling.drop_last ? images_of_step : 1);
}

}  // namespace

Result<Continued> continue_at(checkpoint::Progress& progress, const checkpoint::Progress& stored,
                              const config::TrainConfig& config, const data::Datasets& datasets,
                              const JobContext& context, std::vector<std::string>& warnings) {
  const StepSizeChange change = step_size_change({stored.world_size, stored.batch_size, 1}, stored.global_batch_asked,
                                                 step_size(config, context));
  if (!change.warning.empty()) {
    warnings.push_back(change.warning);
  }
  const checkpoint::Progress fresh = std::exchange(progress, stored);
  ASSIGN_OR_RETURN(const bool ends_an_epoch, keep_position(progress, fresh.dataset_size, config, datasets));
  const bool asked_for = config.checkpoint.accept_changes || config.checkpoint.load.resume != "auto";
  RETURN_IF_ERROR(check_same_data(progress.data, datasets, config.data.given,
                                  asked_for ? OtherData::Accept : OtherData::Refuse, warnings));
  progress.data = fresh.data;
  progress.world_size = fresh.world_size;
  progress.batch_size = fresh.batch_size;
  progress.global_batch_asked = fresh.global_batch_asked;
  if (stored.seed != fresh.seed && datasets.split_by_seed) {
    return fail("--seed", fmt::format("{}", fresh.seed),
                fmt::format("seed {} selected the validation images; with this seed the model would be trained on them",
                            stored.seed),
                fmt::format("--seed={}, or using data with a train and a val part", stored.seed), ErrorKind::Mismatch);
  }
  progress.seed = fresh.seed;  // find_resume_point() has reported a different one
  return Continued{.note = change.note.empty() ? "" : "; " + change.note,
                   .ends_an_epoch = ends_an_epoch,
                   .is_finished = is_at_end(progress, config) && !ends_an_epoch};
}

}  // namespace rollcall::train
