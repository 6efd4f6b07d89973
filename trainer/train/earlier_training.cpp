#include "trainer/train/earlier_training.h"

#include <fmt/format.h>
#include <filesystem>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/read_plan.h"
#include "trainer/config/identity.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"
#include "trainer/train/lost_checkpoints.h"
#include "trainer/train/step_size.h"

namespace rollcall::train {
namespace {

Result<std::vector<checkpoint::format::ListedCheckpoint>> listed_for(const checkpoint::LoadOptions& options) {
  return options.passes_over_others ? checkpoint::format::list_own_checkpoints(options.folder)
                                    : checkpoint::format::list_checkpoints(options.folder);
}

/// What loading will look at, the newest first.
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

/// Whether a file may be read at another time. What is gone by now, is a folder or leads nowhere is no checkpoint.
bool may_pass(const Error& error, const std::string& path) {
  std::error_code ignored;
  return error.kind == ErrorKind::InputOutput ||
         (error.kind == ErrorKind::NoInput && std::filesystem::is_regular_file(path, ignored));
}

/// Whether one of this user's checkpoints in `folder` is the work of `job`. Errors: one cannot be read for a reason
/// that may pass.
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

/// Batches of a step that the scaling of the learning rate counts: over ranks, and accumulated.
std::int64_t batches_of(std::int64_t images, std::int64_t batch_size) {
  return batch_size > 0 ? images / batch_size : 0;
}

/// A step of as many images in other batches, by whose number the learning rate is scaled.
void add_scaling(std::vector<config::Change>& changes, const EarlierTraining& earlier,
                 const config::TrainConfig& config, std::int64_t images) {
  const bool scales = config.optim.scale_optim_params || config.optim.scaling != optim::LearningRateScaling::None;
  const std::string then = config::setting_then(earlier.config_json, "batch-size");
  const std::int64_t before = batches_of(images, parse_integer<std::int64_t>(then).value_or(0));
  const std::int64_t now = batches_of(images, config.batch_size());
  if (scales && before > 0 && before != now) {
    changes.push_back({"--batch-size", then,
                       fmt::format("{} (the learning rate would be scaled for {} batches a step, not {})",
                                   config.batch_size(), now, before)});
  }
}

/// Images of a step that the checkpoint's ranks made up, over all of them.
std::int64_t images_had(const EarlierTraining& earlier) {
  return earlier.progress.world_size * earlier.progress.batch_size;
}

/// Steps of other sizes, where the user asked for them: other ranks alone are no other training.
void add_step_size(std::vector<config::Change>& changes, const EarlierTraining& earlier,
                   const config::TrainConfig& config, const World& world) {
  const std::int64_t now = virtual_ranks(config, world).all * config.batch_size() * config.grad_accumulation();
  const auto compare = [&](const char* name, std::int64_t value) {
    std::string then = config::setting_then(earlier.config_json, name);
    if (!then.empty() && then != std::to_string(value)) {
      changes.push_back({"--" + std::string(name), std::move(then), std::to_string(value)});
    }
  };
  if (earlier.progress.global_batch_asked == now || images_had(earlier) == now) {
    const std::size_t before = changes.size();
    add_scaling(changes, earlier, config, now);
    if (changes.size() == before && config.parallel.replica.exact.virtual_ranks > 0) {
      compare("batch-size", config.batch_size());  // BatchNorm sees other batches
    }
    return;
  }
  compare("batch-size", config.batch_size());
  if (config.accumulation_given) {
    compare("grad-accumulation", config.grad_accumulation());
  }
}

/// The data may lie elsewhere than before; made-up images are never those of a folder.
void add_data(std::vector<config::Change>& changes, std::vector<std::string>& warnings, const EarlierTraining& earlier,
              const config::TrainConfig& config) {
  const std::string then = config::setting_then(earlier.config_json, "data");
  const std::string& now = config.data.given;
  if (then.empty() || then == now) {
    return;
  }
  if (then == "fake" || now == "fake") {
    changes.push_back({"--data", then, now});
  } else {
    warnings.push_back(fmt::format(
        "--data: {}: the checkpoint was trained on {}; going on as if these were the same images", now, then));
  }
}

/// A training that goes on does not read it again: it may have moved, or no longer be given.
void warn_of_other_beginning(std::vector<std::string>& warnings, const EarlierTraining& earlier,
                             const config::TrainConfig& config) {
  const std::string then = config::setting_then(earlier.config_json, "init-from");
  const std::string& now = config.checkpoint.init_from;
  if (!now.empty() && now != then) {
    warnings.push_back(fmt::format("--init-from: {}: is not read, as {} is gone on from, whose training began with {}",
                                   now, earlier.path, then.empty() ? "random weights" : then));
  }
}

/// The newest checkpoints may have been lost, and older ones be left.
void warn_of_older(const config::TrainConfig& config, std::int64_t step, std::vector<std::string>& warnings) {
  const Result<std::string> warning = older_checkpoint_warning(config, step);
  if (!warning) {
    warnings.push_back("whether a newer checkpoint was lost is not known: " + warning.error().text());
  } else if (!warning->empty()) {
    warnings.push_back(*warning);
  }
}

}  // namespace

Result<EarlierTraining> earlier_training_of(const checkpoint::format::CheckpointSource& source) {
  ASSIGN_OR_RETURN(auto values, source.values());
  const checkpoint::OpenCheckpoint stored(source, std::move(values));
  const auto progress = checkpoint::read_progress(stored);
  if (!progress) {
    return fail("--resume", source.path(), "does not tell how far its training was", "another checkpoint",
                ErrorKind::BadData);
  }
  const auto text = [&](const char* name) {
    const auto* const value = stored.value<std::string>(name);
    return value == nullptr ? std::string() : *value;
  };
  return EarlierTraining{source.path(), *progress, text("/config/json"), text("/config/slurm_job")};
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
      return earlier.error();  // loading would say the same
    }
  }
  return std::optional<EarlierTraining>();
}

Result<bool> restarted_job_goes_on(const config::TrainConfig& config, const Environment& environment) {
  const Restart restart = restart_of(environment);
  if (restart.is_first()) {
    return false;
  }
  ASSIGN_OR_RETURN(const RecordedSaves saves, recorded_saves(config, restart));
  if (saves.of_restart >= 0) {
    return true;
  }
  if (restart.job.empty()) {
    return false;
  }
  const Result<bool> staged =
      config.checkpoint.stage.empty() ? false : holds_work_of(restart.job, config.checkpoint.stage);
  return staged && !*staged ? holds_work_of(restart.job, config.checkpoint.load.folder) : staged;
}

bool is_at_end(const checkpoint::Progress& progress, const config::TrainConfig& config) {
  const bool steps_done = config.run.max_steps > 0 && progress.global_step >= config.run.max_steps;
  return (steps_done || progress.epoch >= config.run.epochs) && progress.validation_due == 0;
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
  warnings.push_back(fmt::format(
      "epoch {} goes on in the order of another --seed or --shuffle-window: of the {} images that are left of it, {} "
      "were seen in it before, and as many others are not seen in it at all; the next epoch has each once",
      progress.epoch + 1, size - done, again));
}

namespace {

/// What rank 0 finds to go on from.
struct LookBack {
  std::optional<EarlierTraining> earlier{};
  bool from_own_job = false;  ///< restarted_job_goes_on()
};

/// `given_resume`: setting resume as given.
Result<LookBack> look_back(const config::TrainConfig& config, const std::string& given_resume,
                           const Environment& environment, std::vector<std::string>& warnings) {
  checkpoint::LoadOptions options = config.checkpoint.load;
  const Result<bool> own = restarted_job_goes_on(config, environment);
  if (!own && options.resume != "auto") {
    return own.error();
  }
  LookBack found;
  found.from_own_job = own && *own;  // where that is not known, "auto" goes on all the same, and refuses others' work
  options.resume = found.from_own_job ? "auto" : options.resume;
  options.passes_over_others = found.from_own_job;
  ASSIGN_OR_RETURN(auto earlier, find_earlier_training(options));
  found.earlier = std::move(earlier);
  const std::int64_t step = found.earlier ? found.earlier->progress.global_step : 0;
  const bool is_over = found.earlier && is_at_end(found.earlier->progress, config);
  RETURN_IF_ERROR(is_over ? Result<void>() : check_comes_further(config, environment, step));
  if (found.earlier && options.resume == "auto") {
    warn_of_older(config, found.earlier->progress.global_step, warnings);
  }
  if (found.earlier) {
    return found;
  }
  ASSIGN_OR_RETURN(const auto listed, listed_for(options));  // a file that cannot be read is told of where it is loaded
  RETURN_IF_ERROR(listed.empty() ? check_none_lost(config, given_resume, environment, warnings) : Result<void>());
  return found;
}

/// `warnings` gets what is different and accepted. Errors (Mismatch): names each difference and the ways on.
Result<void> check_same_training(const EarlierTraining& earlier, const settings::Settings& settings,
                                 const config::TrainConfig& config, const World& world,
                                 std::vector<std::string>& warnings) {
  std::vector<config::Change> changes = config::changes(earlier.config_json, settings);
  add_step_size(changes, earlier, config, world);
  add_data(changes, warnings, earlier, config);
  warn_of_other_beginning(warnings, earlier, config);
  if (changes.empty()) {
    return {};
  }
  const config::CheckpointConfig& checkpoint = config.checkpoint;
  const std::string resume = checkpoint.accept_changes ? "continue-with-changes" : checkpoint.load.resume;
  const std::string text = config::changes_text(changes);
  if (resume != "auto") {
    warnings.push_back(
        fmt::format("--resume: {}: {} is of a training defined otherwise: {}; going on with the new values", resume,
                    earlier.path, text));
    return {};
  }
  return fail("--resume", resume, fmt::format("{} is of another training: {}", earlier.path, text),
              "another --run-name or --checkpoint-dir for a training of its own, --resume=continue-with-changes to go "
              "on with the new values, or --resume=never to start afresh in this folder",
              ErrorKind::Mismatch);
}

/// Steps keep their images on as many ranks as before, though --batch-size alone says something else.
void tell_of_accumulation(const EarlierTraining& earlier, std::int64_t kept, const config::TrainConfig& config,
                          std::int64_t ranks, std::vector<std::string>& warnings) {
  if (earlier.progress.world_size == ranks && kept != config.grad_accumulation()) {
    warnings.push_back(
        fmt::format("a step keeps the {} images that it had, by {} micro-batches of {} for each rank; "
                    "--grad-accumulation=1 makes steps smaller, as --batch-size says",
                    kept * ranks * config.batch_size(), kept, config.batch_size()));
  }
}

}  // namespace

Result<std::vector<std::int64_t>> of_rank_zero(const std::vector<std::int64_t>& mine, const World& world) {
  at::Tensor numbers = torch::tensor(mine, at::kLong);
  RETURN_IF_ERROR(process_group::broadcast(world.process_group, numbers));
  const std::int64_t* const first = numbers.const_data_ptr<std::int64_t>();
  return std::vector<std::int64_t>(first, first + mine.size());
}

Result<ResumePoint> find_resume_point(Result<std::optional<EarlierTraining>> in_memory, settings::Settings& settings,
                                      config::TrainConfig& config, const Environment& environment, const World& world,
                                      std::vector<std::string>& warnings) {
  const bool lives_on = in_memory && in_memory->has_value();
  Result<LookBack> mine = LookBack();
  if (!in_memory || lives_on) {
    mine = in_memory ? Result<LookBack>(LookBack{*std::move(in_memory), true}) : in_memory.error();
  } else if (world.rank == 0) {
    mine = look_back(config, settings.text("resume"), environment, warnings);
  }
  const EarlierTraining* const earlier = mine && mine->earlier ? &*mine->earlier : nullptr;
  const bool same_batch_size = earlier != nullptr && config::setting_then(earlier->config_json, "batch-size") ==
                                                         std::to_string(config.batch_size());
  const auto shared =  // what all ranks go by
      of_rank_zero(
          {earlier != nullptr ? earlier->progress.global_batch_asked : 0, earlier != nullptr ? images_had(*earlier) : 0,
           std::int64_t{same_batch_size}, std::int64_t{mine && mine->from_own_job}},
          world);
  if (!mine || !shared) {
    return mine ? shared.error() : mine.error();
  }
  const std::int64_t images_asked = (*shared)[0];
  const std::int64_t ranks = virtual_ranks(config, world).all;
  const auto asked = accumulation_for(images_asked, ranks, config.batch_size());
  const auto kept = asked ? asked : accumulation_for((*shared)[1], ranks, config.batch_size());
  const bool from_own_job = (*shared)[3] != 0;
  ResumePoint point{.images_asked = (*shared)[2] != 0 && !config.accumulation_given ? images_asked : 0};
  if (world.rank == 0) {
    point.earlier = std::move(mine->earlier);
  }
  if (from_own_job && config.checkpoint.load.resume != "auto") {
    RETURN_IF_ERROR(settings.set("resume", "auto", "the checkpoint"));
  }
  if (kept && !config.accumulation_given) {
    if (point.earlier) {
      tell_of_accumulation(*point.earlier, *kept, config, ranks, warnings);
    }
    RETURN_IF_ERROR(settings.set("grad-accumulation", std::to_string(*kept), "the checkpoint"));
  }
  ASSIGN_OR_RETURN(config, config::make_train_config(settings, environment));
  config.checkpoint.load.passes_over_others = from_own_job;
  RETURN_IF_ERROR(point.earlier ? check_same_training(*point.earlier, settings, config, world, warnings)
                                : Result<void>());
  return point;
}

Result<void> confirm_resume_point(ResumePoint& point, const std::string& loaded, const settings::Settings& settings,
                                  const config::TrainConfig& config, const World& world,
                                  std::vector<std::string>& warnings) {
  if (loaded.empty() || (point.earlier && loaded == point.earlier->path)) {
    return {};
  }
  ASSIGN_OR_RETURN(point.earlier, find_earlier_training({.resume = loaded, .folder = {}}));
  if (!point.earlier) {
    return fail("--resume", loaded, "was loaded, and cannot be read again to see whether it is this training's",
                "starting again once the file system is well", ErrorKind::InputOutput);
  }
  return check_same_training(*point.earlier, settings, config, world, warnings);
}

}  // namespace rollcall::train
