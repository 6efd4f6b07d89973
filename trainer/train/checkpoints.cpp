#include "trainer/train/checkpoints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/optim/optimizer.h"
#include "trainer/precision/loss_scaler.h"
#include "trainer/torch.h"
#include "trainer/train/earlier_training.h"
#include "trainer/train/outcome.h"
#include "trainer/train/process.h"
#include "trainer/train/same_data.h"
#include "trainer/train/step_size.h"

namespace rollcall::train {
namespace {

namespace fs = std::filesystem;

/// The step up to which the checkpoints of `folder` are those of the training that goes on from `path` at `step`; -1:
/// none are.
std::int64_t line_of(const std::string& path, const std::string& folder, std::int64_t step) {
  std::error_code ignored;
  const fs::path expected = fs::path(folder) / checkpoint::format::checkpoint_name(step);
  return fs::equivalent(path, expected, ignored) ? step : -1;
}

/// The replica's way of dividing parameters, in the checkpoint's terms.
class ReplicaSharding final : public checkpoint::Sharding {
 public:
  ReplicaSharding(const parallel::Replica& replica, const torch::nn::Module& model) : replica_(replica) {
    for (const auto& entry : model.named_parameters()) {
      whole_shapes_[entry.key()] = entry.value().sizes().vec();
    }
  }

  [[nodiscard]] std::optional<checkpoint::Shard> shard(const std::string& key) const override {
    const at::Tensor rows = replica_.shard(key);
    if (!rows.defined()) {
      return std::nullopt;
    }
    return checkpoint::Shard{rows, whole_shapes_.at(key), replica_.first_row(key)};
  }

  [[nodiscard]] bool writes() const override { return replica_.is_first_of_replicas(); }

 private:
  const parallel::Replica& replica_;
  std::map<std::string, std::vector<std::int64_t>> whole_shapes_;
};

}  // namespace

Checkpoints::Checkpoints(const config::TrainConfig& config, Training& training, const World& world, const Lease* lease,
                         std::vector<std::string> argv, std::string job)
    : config_(config),
      training_(training),
      world_(world),
      sharding_(training.replica->is_sharded() ? std::make_unique<ReplicaSharding>(*training.replica, *training.model)
                                               : nullptr),
      writer_(config.checkpoint, world),
      lease_(lease),
      argv_(std::move(argv)),
      job_(std::move(job)),
      parameter_keys_(checkpoint::parameter_keys(training.replica->named_parameters(), *training.optimizer)),
      parameters_(parameter_keys_.begin(), parameter_keys_.end()) {}

checkpoint::TrainingState Checkpoints::state_of(const checkpoint::Progress& progress) const {
  return {.model = *training_.model,
          .optimizer = *training_.optimizer,
          .parameter_keys_in_optimizer_order = parameter_keys_,
          .progress = progress,
          .rng_per_rank = {},
          .config_json = config_.json,
          .argv = argv_,
          .job = job_,
          .sharding = sharding_.get()};
}

Result<std::string> Checkpoints::load(checkpoint::Progress& progress, std::vector<std::string>& warnings) {
  checkpoint::TrainingState state = state_of(progress);
  const optim::Options own = optim::options_of(*training_.optimizer);
  ASSIGN_OR_RETURN(const auto ranks, writer_.group());
  ASSIGN_OR_RETURN(const auto loaded, checkpoint::load(config_.checkpoint.load, state, *ranks));
  optim::set_options(*training_.optimizer, own);
  if (!loaded.has_value()) {
    const std::string why = config_.checkpoint.load.resume == "auto"
                                ? fmt::format(": {} holds no checkpoint", config_.checkpoint.load.folder)
                                : ", as --resume=never says";
    const Result<std::string> with = config_.checkpoint.init_from.empty() ? std::string() : init();
    return with ? Result<std::string>(fmt::format("begins at step 0{}{}", why, *with)) : with.error();
  }
  warnings.insert(warnings.end(), loaded->warnings.begin(), loaded->warnings.end());
  loaded_from_ = loaded->path;
  line_begins_at_ = line_of(loaded_from_, config_.checkpoint.load.folder, state.progress.global_step);
  ASSIGN_OR_RETURN(const std::string how, take_place(progress, state, warnings));
  if (is_finished(progress)) {
    return fmt::format(
        "{} is the end of this training, at step {}: nothing is left to do; more --epochs go on, "
        "--resume=never starts afresh",
        loaded->path, progress.global_step);
  }
  return fmt::format("resumed from {} at epoch {}, step {} (--resume=never starts afresh){}", loaded->path,
                     progress.epoch + 1, progress.global_step, how);
}

Result<std::string> Checkpoints::go_on(const Living& living, checkpoint::Progress& progress,
                                       std::vector<std::string>& warnings) {
  checkpoint::TrainingState state = state_of(living.earlier.progress);
  line_begins_at_ = living.line_begins_at;
  went_on_ = true;
  const Result<std::string> how = take_place(progress, state, warnings);
  return how ? Result<std::string>(fmt::format("goes on from {} at epoch {}, step {}{}", living.earlier.path,
                                               progress.epoch + 1, progress.global_step, *how))
             : how.error();
}

void Checkpoints::use_copies(NeighbourCopies& copies, std::int64_t generation) {
  copies_ = &copies;
  generation_ = generation;
}

Result<std::string> Checkpoints::load_copies(FoundCopies& found, checkpoint::Progress& progress,
                                             std::vector<std::string>& warnings) {
  checkpoint::TrainingState state = state_of(progress);
  const optim::Options own = optim::options_of(*training_.optimizer);
  ASSIGN_OR_RETURN(const auto ranks, writer_.group());
  if (Result<void> loaded = checkpoint::load(
          found.checkpoint, [&] { return fetch(found, *copies_, world_); }, state, *ranks);
      !loaded) {
    return loaded.error();
  }
  copies_->settle_on(found.name);
  optim::set_options(*training_.optimizer, own);
  loaded_from_ = found.checkpoint.path();
  line_begins_at_ = found.line_begins_at;
  went_on_ = true;
  const Result<std::string> how = take_place(progress, state, warnings);
  return how ? Result<std::string>(fmt::format("goes on from copies in {} at epoch {}, step {}{}", loaded_from_,
                                               progress.epoch + 1, progress.global_step, *how))
             : how.error();
}

Result<std::string> Checkpoints::take_place(checkpoint::Progress& progress, const checkpoint::TrainingState& state,
                                            std::vector<std::string>& warnings) {
  const StepSizeChange change =
      step_size_change({state.progress.world_size, state.progress.batch_size, 1}, state.progress.global_batch_asked,
                       {virtual_ranks(config_, world_).all, config_.batch_size(), config_.grad_accumulation()});
  if (!change.warning.empty()) {
    warnings.push_back(change.warning);
  }
  RETURN_IF_ERROR(continue_at(progress, state, warnings));
  ASSIGN_OR_RETURN(const std::string of_best,
                   keep_best(progress, validates_otherwise(state.progress.data, training_.data.datasets)));
  began_at_ = progress.global_step;
  return (change.note.empty() ? "" : "; " + change.note) + of_best;
}

bool Checkpoints::is_finished(const checkpoint::Progress& progress) const {
  return is_at_end(progress, config_) && !ends_an_epoch_;
}

Result<std::string> Checkpoints::init() {
  const std::string& path = config_.checkpoint.init_from;
  ASSIGN_OR_RETURN(const auto ranks, writer_.group());
  ASSIGN_OR_RETURN(const auto begun, checkpoint::init_from(path, *training_.model, sharding_.get(),
                                                           config_.checkpoint.load.verify, *ranks));
  const std::string changes = begun.changes.empty() ? "" : fmt::format(" ({})", fmt::join(begun.changes, "; "));
  if (begun.left_out.empty()) {
    return fmt::format("; the model begins as {}{}", path, changes);
  }
  return fmt::format("; the model begins as {}{}, but for its last layer: {}", path, changes,
                     fmt::join(begun.left_out, ", "));
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
  return fail("--resume", config_.checkpoint.load.resume,
              fmt::format("this rank found step {} and others another one", step),
              "making all nodes see the same checkpoint folder, or --resume=FILE", ErrorKind::Mismatch);
}

/// The position counts in an order of so many images: in another data set it means nothing.
Result<void> Checkpoints::keep_position(checkpoint::Progress& progress, std::int64_t dataset_size) {
  const std::int64_t images_of_step = progress.world_size * progress.batch_size;
  // Files of earlier versions do not say how many images there were, and count the last step's padding.
  const bool other = progress.dataset_size > 0 ? progress.dataset_size != dataset_size
                                               : progress.sample_position >= dataset_size + images_of_step;
  if (other) {
    const std::string before = progress.dataset_size > 0 ? fmt::format("{}", progress.dataset_size) : "more";
    const bool more = progress.dataset_size > 0 && progress.dataset_size < dataset_size;
    return fail(
        "--data", config_.data.given,
        fmt::format("has {} training images, the checkpoint of step {} is of a training with {}{}", dataset_size,
                    progress.global_step, before, more ? read_since_text(training_.data.datasets) : ""),
        "the data set of before, or another --run-name or --checkpoint-dir, with --init-from=FILE to begin "
        "with what was trained",
        ErrorKind::Mismatch);
  }
  progress.dataset_size = dataset_size;
  progress.sample_position = std::min(progress.sample_position, dataset_size);
  // By the steps of the run that wrote it: this run's may be larger, and leave more out.
  const std::int64_t left = dataset_size - progress.sample_position;
  ends_an_epoch_ = progress.step_in_epoch > 0 && left < (config_.data.sampling.drop_last ? images_of_step : 1);
  return {};
}

Result<void> Checkpoints::continue_at(checkpoint::Progress& progress, const checkpoint::TrainingState& state,
                                      std::vector<std::string>& warnings) {
  const checkpoint::Progress fresh = std::exchange(progress, state.progress);
  if (Result<void> same = keep_position(progress, fresh.dataset_size); !same) {
    return same;
  }
  const config::CheckpointConfig& checkpoint = config_.checkpoint;
  const bool asked_for = checkpoint.accept_changes || checkpoint.load.resume != "auto";
  if (Result<void> same = check_same_data(progress.data, training_.data.datasets, config_.data.given,
                                          asked_for ? OtherData::Accept : OtherData::Refuse, warnings);
      !same) {
    return same;
  }
  progress.data = fresh.data;
  progress.world_size = fresh.world_size;
  progress.batch_size = fresh.batch_size;
  progress.global_batch_asked = fresh.global_batch_asked;
  if (state.progress.seed != fresh.seed && training_.data.datasets.split_by_seed) {
    return fail("--seed", fmt::format("{}", fresh.seed),
                fmt::format("seed {} decided which images validate, and the model would be trained with those now",
                            state.progress.seed),
                fmt::format("--seed={}, or data with a train and a val part", state.progress.seed),
                ErrorKind::Mismatch);
  }
  progress.seed = fresh.seed;  // find_resume_point() has told where it is another one
  if (world_.rank < state.rng_per_rank.size()) {
    return checkpoint::set_cpu_rng_state(state.rng_per_rank[world_.rank]);
  }
  return {};
}

Result<bool> Checkpoints::save(checkpoint::Progress& progress, Urgency urgency, bool others_saving) {
  if (!writer_.may_save(urgency, others_saving)) {
    return false;
  }
  if (urgency != Urgency::Final && writer_.gave_up()) {  // all ranks know of the same saves here
    return writer_.last_failure();
  }
  if (unsettled_ != progress.global_step) {
    RETURN_IF_ERROR(settle_best(progress));
  }
  ASSIGN_OR_RETURN(checkpoint::StateParts parts,
                   checkpoint::collect(state_of(progress), world_.rank, world_.world_size));
  RETURN_IF_ERROR(prepare_save(parts, progress.global_step, true));
  checkpoint::add_generator(parts, world_.rank, world_.world_size);
  checkpoint::background::Destination destination{.folder = config_.checkpoint.load.folder,
                                                  .step = progress.global_step,
                                                  .retention = retention(progress),
                                                  .stage = config_.checkpoint.stage};
  if (!writer_.saved_once()) {
    destination.line_begins_at = line_begins_at_;
    destination.stage_cleared = stage_cleared_;
  }
  destination.best_step = config_.checkpoint.keep_best > 0 ? progress.best_step : -1;
  if (lease_ != nullptr) {
    destination.is_ours = [lease = lease_]() -> Result<void> {
      return lease->lost_by_now() ? lease->taken_over() : Result<void>();
    };
  }
  RETURN_IF_ERROR(writer_.save(std::move(destination), parts, parameters_, urgency));
  return true;
}

void Checkpoints::make_room(const checkpoint::Progress& progress) {
  const bool saves =
      config_.checkpoint.every_steps > 0 || config_.checkpoint.every_epochs > 0 || config_.parallel.replicate_steps > 0;
  if (has_room_ || world_.device.type() == at::kCPU || !saves || writer_.under_way()) {
    return;
  }
  if (const auto parts = checkpoint::collect(state_of(progress), world_.rank, world_.world_size)) {
    writer_.make_room(*parts);
    has_room_ = true;
  }  // else a save tells why not
}

Result<bool> Checkpoints::replicate(const checkpoint::Progress& progress, bool others_saving, bool may_skip) {
  if (may_skip && others_saving) {
    return false;
  }
  writer_.finish_save();
  const double begun = seconds_now();
  checkpoint::Progress told = progress;
  give_back_best(told);
  ASSIGN_OR_RETURN(checkpoint::StateParts parts, checkpoint::collect(state_of(told), world_.rank, world_.world_size));
  RETURN_IF_ERROR(replicated_ < 0 ? check_memory(parts) : Result<void>());
  RETURN_IF_ERROR(prepare_save(parts, progress.global_step, false));
  checkpoint::add_generator(parts, world_.rank, world_.world_size);
  if (world_.rank == 0) {
    parts.values[kLineBeginsAt] = line_at(progress.global_step);
  }
  replicated_ = progress.global_step;
  replicas_ += 1;
  const Result<void> copied = writer_.copy_to_neighbour({.generation = generation_,
                                                         .step = progress.global_step,
                                                         .number = replicas_,
                                                         .owners = world_.world_size,
                                                         .owner = world_.rank},
                                                        parts, parameters_, *copies_, begun);
  return copied ? Result<bool>(true) : copied.error();
}

Result<void> Checkpoints::check_memory(const checkpoint::StateParts& parts) const {
  constexpr std::uint64_t kCopies = 5;  // own and neighbour's of two steps, and what a save in the background holds
  const std::uint64_t needed = kCopies * checkpoint::bytes_of(parts);
  const bool fits = world_.share.memory == 0 || needed <= world_.share.memory;
  return process_group::agree_or_fail(
      world_.process_group, fits ? Result<void>()
                                 : fail("--replicate-to", "neighbour",
                                        fmt::format("copies take {} of a rank's {}", metrics::human_bytes(needed),
                                                    metrics::human_bytes(world_.share.memory)),
                                        "more memory for each task (--mem-per-cpu), or leaving it out"));
}

Error Checkpoints::taken_over() const {
  return lease_ != nullptr && lease_->lost() ? lease_->taken_over()
                                             : train::taken_over({"--checkpoint-dir", config_.checkpoint.load.folder});
}

namespace {

/// This rank's part of all that is to be saved and is of a floating point type: parameters, statistics, moments.
torch::OrderedDict<std::string, at::Tensor> numbers_of(const checkpoint::StateParts& parts) {
  torch::OrderedDict<std::string, at::Tensor> numbers;
  for (const checkpoint::TensorPart& part : parts.tensors) {
    if (part.rows.defined() && part.rows.numel() > 0 && part.rows.is_floating_point()) {
      numbers.insert(part.state_dict_key.empty() ? part.path.substr(1) : part.state_dict_key, part.rows);
    }
  }
  return numbers;
}

}  // namespace

Result<void> Checkpoints::prepare_save(const checkpoint::StateParts& parts, std::int64_t step, bool looks) {
  const auto numbers = numbers_of(parts);
  const bool finite = precision::all_finite(numbers.values());
  const bool lost = lease_ != nullptr && (looks ? lease_->lost_by_now() : lease_->lost());
  // Last what may wait for a file system, on any rank; the collective below has less patience.
  const bool group_failed = writer_.wait_for_ranks();
  at::Tensor ranks = torch::tensor({std::int64_t{lost}, std::int64_t{!finite}, std::int64_t{group_failed}}, at::kLong);
  if (Result<void> reduced = process_group::all_reduce_sum(world_.process_group, ranks); !reduced) {
    return reduced;
  }
  const std::int64_t* const number = ranks.const_data_ptr<std::int64_t>();
  if (number[0] > 0) {
    return taken_over();
  }
  if (number[1] > 0) {
    return state_not_finite(precision::first_not_finite(numbers), step);
  }
  return writer_.restore_group(number[2] > 0);
}

bool Checkpoints::replica_due_after_step(std::int64_t global_step) const {
  const std::int64_t every = config_.parallel.replicate_steps;
  return copies_ != nullptr && every > 0 && (replicated_ < 0 || global_step - replicated_ >= every);
}

bool Checkpoints::replica_overdue_after_step(std::int64_t global_step) const {
  return replica_due_after_step(global_step) &&
         global_step - std::max(replicated_, began_at_) >= 2 * config_.parallel.replicate_steps;
}

bool Checkpoints::due_after_step(std::int64_t global_step) const {
  const std::int64_t every = config_.checkpoint.every_steps;
  return every > 0 && global_step % every == 0;
}

bool Checkpoints::due_after_epoch(std::int64_t finished_epochs) const {
  const std::int64_t every = config_.checkpoint.every_epochs;
  return every > 0 && finished_epochs % every == 0;
}

checkpoint::Progress first_progress(const config::TrainConfig& config, const Training& training, const World& world,
                                    std::int64_t images_asked) {
  checkpoint::Progress progress;
  progress.world_size = virtual_ranks(config, world).all;
  progress.batch_size = config.batch_size() * config.grad_accumulation();
  progress.global_batch_asked = images_asked > 0 ? images_asked : progress.world_size * progress.batch_size;
  progress.seed = config.run.seed;
  progress.dataset_size = training.data.train_sampler->options().dataset_size;
  progress.data = data_of(training.data.datasets);
  return progress;
}

}  // namespace rollcall::train
