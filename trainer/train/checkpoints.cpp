#include "trainer/train/checkpoints.h"

#include <fmt/format.h>
#include <torch/torch.h>
#include <algorithm>
#include <utility>

#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/parameter_keys.h"
#include "trainer/process_group/agree.h"
#include "trainer/process_group/collectives.h"

namespace rollcall::train {
namespace {

std::vector<std::byte> to_bytes(const std::vector<std::uint8_t>& numbers) {
  std::vector<std::byte> bytes(numbers.size());
  std::transform(numbers.begin(), numbers.end(), bytes.begin(), [](std::uint8_t n) { return std::byte{n}; });
  return bytes;
}

Result<std::vector<std::vector<std::byte>>> generators_of_all_ranks(const process_group::Group& group) {
  const std::vector<std::byte> state = checkpoint::cpu_rng_state();
  std::vector<std::uint8_t> mine(state.size());
  std::transform(state.begin(), state.end(), mine.begin(),
                 [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  const Result<std::vector<std::vector<std::uint8_t>>> gathered = process_group::all_gather_bytes(group, mine);
  if (!gathered) {
    return gathered.error();
  }
  std::vector<std::vector<std::byte>> states;
  std::transform(gathered->begin(), gathered->end(), std::back_inserter(states), to_bytes);
  return states;
}

}  // namespace

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

Checkpoints::Checkpoints(const settings::Settings& settings, std::string folder, Task& task,
                         const parallel::Replica& replica, World& world, std::vector<std::string> argv)
    : settings_(settings),
      folder_(std::move(folder)),
      task_(task),
      replica_(replica),
      sharding_(replica, *task.model),
      world_(world),
      group_(world.process_group),
      argv_(std::move(argv)) {}

Result<void> Checkpoints::prepare() const {
  return world_.rank == 0 ? checkpoint::format::prepare_folder(folder_) : Result<void>();
}

checkpoint::TrainingState Checkpoints::state_of(const checkpoint::Progress& progress) const {
  return {
      .model = *task_.model,
      .optimizer = *task_.optimizer,
      .parameter_keys_in_optimizer_order = checkpoint::parameter_keys(replica_.named_parameters(), *task_.optimizer),
      .progress = progress,
      .rng_per_rank = {},
      .config_json = settings::print_config(settings_, true),
      .argv = argv_,
      .sharding = replica_.is_sharded() ? &sharding_ : nullptr};
}

Result<std::string> Checkpoints::load(checkpoint::Progress& progress, std::vector<std::string>& warnings) {
  checkpoint::TrainingState state = state_of(progress);
  const auto level = settings_.text("verify") == "full" ? checkpoint::format::VerifyLevel::Full
                                                        : checkpoint::format::VerifyLevel::Metadata;
  const Result<std::optional<checkpoint::LoadedInfo>> loaded =
      checkpoint::load({.resume = settings_.text("resume"), .folder = folder_, .verify = level}, state, group_);
  if (!loaded) {
    return loaded.error();
  }
  if (!loaded->has_value()) {
    return std::string();
  }
  warnings.insert(warnings.end(), (*loaded)->warnings.begin(), (*loaded)->warnings.end());
  if (Result<void> continued = continue_at(progress, state, warnings); !continued) {
    return continued.error();
  }
  return fmt::format("resumed from {} at epoch {}, step {} (--resume=never starts afresh)", (*loaded)->path,
                     progress.epoch + 1, progress.global_step);
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
  if (state.progress.world_size != fresh.world_size || state.progress.batch_size != fresh.batch_size) {
    warnings.push_back(
        fmt::format("the checkpoint was written by {} ranks with {} images each, now there are {} with {}: every image "
                    "is still seen once an epoch, but the numbers will differ in rounding and batch size",
                    state.progress.world_size, state.progress.batch_size, fresh.world_size, fresh.batch_size));
  }
  if (world_.rank < state.rng_per_rank.size()) {
    return checkpoint::set_cpu_rng_state(state.rng_per_rank[world_.rank]);
  }
  return {};
}

Result<void> Checkpoints::save(const checkpoint::Progress& progress) {
  Result<std::vector<std::vector<std::byte>>> generators = generators_of_all_ranks(world_.process_group);
  if (!generators) {
    return generators.error();
  }
  checkpoint::TrainingState state = state_of(progress);
  state.rng_per_rank = *std::move(generators);
  return checkpoint::save(folder_, state, {.keep_last = settings_.integer("checkpoint-keep")}, group_);
}

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
