#include "trainer/train/checkpoints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>
#include <algorithm>
#include <utility>

#include "trainer/checkpoint/rng.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/step_size.h"

namespace rollcall::train {

Checkpoints::ReplicaSharding::ReplicaSharding(const parallel::Replica& replica, const torch::nn::Module& model)
    : replica_(replica) {
  for (const auto& entry : model.named_parameters()) {
    whole_shapes_[entry.key()] = entry.value().sizes().vec();
  }
}

std::optional<checkpoint::Shard> Checkpoints::ReplicaSharding::shard(const std::string& key) const {
  const at::Tensor rows = replica_.shard(key);
  if (!rows.defined()) {
    return std::nullopt;
  }
  return checkpoint::Shard{rows, whole_shapes_.at(key), replica_.first_row(key)};
}

Checkpoints::Checkpoints(const settings::Settings& settings, RunFolders folders, Task& task,
                         const parallel::Replica& replica, World& world, process_group::Group saving_group,
                         std::vector<std::string> argv)
    : settings_(settings),
      folders_(std::move(folders)),
      task_(task),
      replica_(replica),
      sharding_(replica, *task.model),
      world_(world),
      saving_(settings, std::move(saving_group)),
      argv_(std::move(argv)),
      config_json_(settings::print_config(settings_, true)),
      parameter_keys_(checkpoint::parameter_keys(replica_.named_parameters(), *task_.optimizer)),
      parameters_(parameter_keys_.begin(), parameter_keys_.end()) {}

checkpoint::TrainingState Checkpoints::state_of(const checkpoint::Progress& progress) const {
  return {.model = *task_.model,
          .optimizer = *task_.optimizer,
          .parameter_keys_in_optimizer_order = parameter_keys_,
          .progress = progress,
          .rng_per_rank = {},
          .config_json = config_json_,
          .argv = argv_,
          .sharding = replica_.is_sharded() ? &sharding_ : nullptr};
}

checkpoint::format::VerifyLevel Checkpoints::verify_level() const {
  return settings_.text("verify") == "full" ? checkpoint::format::VerifyLevel::Full
                                            : checkpoint::format::VerifyLevel::Metadata;
}

Result<std::string> Checkpoints::load(checkpoint::Progress& progress, std::vector<std::string>& warnings) {
  checkpoint::TrainingState state = state_of(progress);
  const Result<std::optional<checkpoint::LoadedInfo>> loaded =
      checkpoint::load({.resume = settings_.text("resume"), .folder = folders_.checkpoints, .verify = verify_level()},
                       state, saving_.group());
  if (!loaded) {
    return loaded.error();
  }
  if (!loaded->has_value()) {
    return settings_.text("init-from").empty() ? std::string() : init();
  }
  warnings.insert(warnings.end(), (*loaded)->warnings.begin(), (*loaded)->warnings.end());
  const StepSizeChange change =
      step_size_change({state.progress.world_size, state.progress.batch_size, 1},
                       {world_.world_size, settings_.integer("batch-size"), settings_.integer("grad-accumulation")});
  if (!change.warning.empty()) {
    warnings.push_back(change.warning);
  }
  if (Result<void> continued = continue_at(progress, state, warnings); !continued) {
    return continued.error();
  }
  return fmt::format("resumed from {} at epoch {}, step {} (--resume=never starts afresh){}{}", (*loaded)->path,
                     progress.epoch + 1, progress.global_step, change.note.empty() ? "" : "; ", change.note);
}

Result<std::string> Checkpoints::init() {
  const std::string& path = settings_.text("init-from");
  const auto left_out = checkpoint::init_from(path, *task_.model, replica_.is_sharded() ? &sharding_ : nullptr,
                                              verify_level(), saving_.group());
  if (!left_out) {
    return left_out.error();
  }
  if (left_out->empty()) {
    return fmt::format("the model begins as {}", path);
  }
  return fmt::format("the model begins as {}, but for its last layer: {}", path, fmt::join(*left_out, ", "));
}

Result<void> Checkpoints::confirm_same_step(const checkpoint::Progress& progress) const {
  const std::int64_t step = progress.global_step;
  at::Tensor sums = torch::tensor({step, step * step, std::int64_t{1}}, at::kLong);
  if (Result<void> reduced = process_group::all_reduce_sum(world_.process_group, sums); !reduced) {
    return reduced;
  }
  const std::int64_t* const sum = sums.const_data_ptr<std::int64_t>();
  if (sum[0] == step * sum[2] && sum[1] == step * step * sum[2]) {
    return {};
  }
  return fail("--resume", settings_.text("resume"), fmt::format("this rank found step {} and others another one", step),
              "making all nodes see the same checkpoint folder, or --resume=FILE", ExitCode::Mismatch);
}

Result<void> Checkpoints::continue_at(checkpoint::Progress& progress, const checkpoint::TrainingState& state,
                                      std::vector<std::string>& warnings) const {
  const checkpoint::Progress fresh = std::exchange(progress, state.progress);
  progress.world_size = fresh.world_size;
  progress.batch_size = fresh.batch_size;
  if (state.progress.seed != fresh.seed) {
    warnings.push_back(
        fmt::format("--seed: {}: the checkpoint was written with seed {}, which decides the order of the images; "
                    "going on with {}",
                    fresh.seed, state.progress.seed, fresh.seed));
    progress.seed = fresh.seed;
  }
  if (world_.rank < state.rng_per_rank.size()) {
    return checkpoint::set_cpu_rng_state(state.rng_per_rank[world_.rank]);
  }
  return {};
}

Result<bool> Checkpoints::save(const checkpoint::Progress& progress, Urgency urgency, bool others_saving) {
  if (!saving_.may_save(urgency, others_saving)) {
    return false;
  }
  if (urgency != Urgency::Final && saving_.gave_up()) {  // all ranks know of the same saves here
    return saving_.last_failure();
  }
  Result<checkpoint::StateParts> parts = checkpoint::collect(state_of(progress), world_.rank, world_.world_size);
  if (!parts) {
    return parts.error();
  }
  checkpoint::add_generator(*parts, world_.rank, world_.world_size);
  checkpoint::background::Destination destination{.folder = folders_.checkpoints,
                                                  .step = progress.global_step,
                                                  .retention = retention(progress),
                                                  .stage = folders_.stage};
  destination.best_step = best_kept() > 0 ? progress.best_step : -1;
  if (Result<void> saved = saving_.save(std::move(destination), *parts, parameters_, urgency); !saved) {
    return saved.error();
  }
  return true;
}

checkpoint::Retention Checkpoints::retention(const checkpoint::Progress& progress) const {
  checkpoint::Retention retention{.keep_last = settings_.integer("keep-last"),
                                  .keep_every = settings_.integer("keep-every")};
  for (const checkpoint::Best& best : progress.best) {
    retention.best_steps.push_back(best.step);
  }
  return retention;
}

std::size_t Checkpoints::best_kept() const { return static_cast<std::size_t>(settings_.integer("keep-best")); }

bool Checkpoints::due_after_step(std::int64_t global_step) const {
  const std::int64_t every = settings_.integer("checkpoint-steps");
  return every > 0 && global_step % every == 0;
}

bool Checkpoints::due_after_epoch(std::int64_t finished_epochs) const {
  const std::int64_t every = settings_.integer("checkpoint-epochs");
  return every > 0 && finished_epochs % every == 0;
}

checkpoint::Progress first_progress(const settings::Settings& settings, const World& world) {
  checkpoint::Progress progress;
  progress.world_size = world.world_size;
  progress.batch_size = settings.integer("batch-size") * settings.integer("grad-accumulation");
  progress.seed = static_cast<std::uint64_t>(settings.integer("seed"));
  return progress;
}

}  // namespace rollcall::train
