#include "trainer/train/found_in_memory.h"

#include <cstdint>
#include <utility>

#include "trainer/checkpoint/checkpoint.h"

namespace rollcall::train {
namespace {

/// The step of the newest of the checkpoints that this run has written or went on from, as look_back() would find it;
/// 0: none of a later step than `step`.
Result<std::int64_t> newest_own_step_after(std::int64_t step, const config::TrainConfig& config,
                                           const Environment& environment) {
  const auto listed = checkpoint::format::list_own_checkpoints(config.checkpoint.load.folder);
  if (listed && (listed->empty() || listed->front().step <= step)) {
    return 0;  // as nearly always: whose they are takes longer to find out, the longer the run's records are
  }
  const Result<bool> own = restarted_job_goes_on(config, environment);
  if (!own) {
    return own.error();
  }
  checkpoint::LoadOptions options = config.checkpoint.load;
  options.passes_over_others = true;
  options.resume = *own ? "auto" : options.resume;
  const Result<std::optional<EarlierTraining>> found = find_earlier_training(options);
  if (!found) {
    return found.error();
  }
  return *found ? (*found)->progress.global_step : 0;
}

/// Whether rank 0 finds a checkpoint of a later step. Collective.
Result<bool> saved_since(std::int64_t step, const config::TrainConfig& config, const Environment& environment,
                         const World& world) {
  const Result<std::int64_t> saved =
      world.rank == 0 ? newest_own_step_after(step, config, environment) : Result<std::int64_t>(0);
  const Result<GoingOn> newest = share({.images_of_step = saved ? *saved : 0, .from_own_job = false}, world);
  if (!saved || !newest) {
    return saved ? newest.error() : saved.error();
  }
  return newest->images_of_step > step;
}

}  // namespace

Recovery FoundInMemory::recovery() const { return living ? living->recovery : copies ? copies->recovery : Recovery(); }

Result<LookBack> FoundInMemory::look_back() const {
  if (living) {
    return LookBack{.earlier = living->earlier, .from_own_job = true};
  }
  if (!copies) {
    return LookBack();
  }
  Result<EarlierTraining> earlier = earlier_training_of(copies->checkpoint);
  if (earlier && earlier->progress.global_step != copies->name.step) {
    return fail("checkpoint", earlier->path, "is not of the step that its name says", "reporting this",
                ExitCode::Internal);
  }
  return earlier ? Result<LookBack>({.earlier = *std::move(earlier), .from_own_job = true}) : earlier.error();
}

Result<FoundInMemory> find_in_memory(std::optional<Kept>& kept, const NeighbourCopies& copies,
                                     const config::TrainConfig& config, const Environment& environment,
                                     const World& world) {
  Result<std::optional<Living>> living = find_living(kept, world);
  if (!living) {
    return living.error();
  }
  Result<std::optional<FoundCopies>> parts = std::optional<FoundCopies>();
  if (!*living && config.parallel.replicate_steps > 0) {
    parts = find_copies(copies, kept ? kept->recovery : Recovery(), world);
  }
  if (!parts || (!*living && !*parts)) {
    return parts ? Result<FoundInMemory>(FoundInMemory()) : parts.error();
  }
  // Of one step the file goes before copies: it came later, with an epoch's end and its validation.
  const std::int64_t step = *living ? (*living)->earlier.progress.global_step : (*parts)->name.step - 1;
  const Result<bool> newer = saved_since(step, config, environment, world);
  if (!newer) {
    return newer.error();
  }
  if (*newer) {
    if (*living) {
      kept.reset();
    }
    return FoundInMemory();
  }
  return FoundInMemory{.living = *std::move(living), .copies = *std::move(parts)};
}

}  // namespace rollcall::train
