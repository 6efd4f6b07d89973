#include "trainer/train/checkpoints/checkpoints.h"

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
#include "trainer/train/outcome.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

namespace fs = std::filesystem;

/// Returns the step up to which the checkpoints of `folder` belong to the training that resumes from `path` at `step`;
/// -1: none do.
std::int64_t line_of(const std::string& path, const std::string& folder, std::int64_t step) {
  std::error_code ignored;
  const fs::path expected = fs::path(folder) / checkpoint::format::checkpoint_name(step);
  return fs::equivalent(path, expected, ignored) ? step : -1;
}

/// Adapts the replica's sharding of parameters to the checkpoint's interface.
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

/// Returns this rank's part of all floating-point data to be saved: parameters, statistics, moments.
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

Checkpoints::Checkpoints(const config::TrainConfig& config, Training& training, const JobContext& context,
                         const Lease* lease, std::vector<std::string> argv, std::string job)
    : config_(config),
      training_(training),
      context_(context),
      sharding_(training.replica->is_sharded() ? std::make_unique<ReplicaSharding>(*training.replica, *training.model)
                                               : nullptr),
      writer_(config.checkpoint, context),
      best_(config.checkpoint, context, writer_),
      lease_(lease),
      argv_(std::move(argv)),
      job_(std::move(job)),
      parameter_keys_(checkpoint::parameter_keys(training.replica->named_parameters(), *training.optimizer)) {}

checkpoint::TrainingState Checkpoints::state_of(const checkpoint::Progress& progress) const {
  return {.model = *training_.model,
          .optimizer = *training_.optimizer,
          .parameter_keys_in_optimizer_order = parameter_keys_,
          .progress = progress,
          .rng_per_rank = {},
          .config_json = config_.json,
          .argv = argv_,
          .job = job_,
          .class_names = training_.data.datasets.class_names,
          .sharding = sharding_.get(),
          .average = training_.average ? &*training_.average : nullptr};
}

Result<std::string> Checkpoints::load(checkpoint::Progress& progress, std::vector<std::string>& warnings) {
  checkpoint::TrainingState state = state_of(progress);
  const optim::Options own = optim::options_of(*training_.optimizer);
  ASSIGN_OR_RETURN(const auto ranks, writer_.group());
  ASSIGN_OR_RETURN(const auto loaded, checkpoint::load(config_.checkpoint.load, state, *ranks));
  optim::set_options(*training_.optimizer, own);
  if (!loaded.has_value()) {
    const std::string why = config_.checkpoint.load.resume == "auto"
                                ? fmt::format(": no checkpoint in {}", config_.checkpoint.load.folder)
                                : ", because of --resume=never";
    const Result<std::string> with = config_.checkpoint.init_from.empty() ? std::string() : init();
    begin_average();
    return with ? Result<std::string>(fmt::format("starts at step 0{}{}", why, *with)) : with.error();
  }
  warnings.insert(warnings.end(), loaded->warnings.begin(), loaded->warnings.end());
  loaded_from_ = loaded->path;
  if (state.lacks_average) {
    begin_average();
    warnings.push_back(fmt::format("--ema: {}: {} has no average of the weights; it begins with the weights",
                                   config_.optim.ema_decay, loaded->path));
  }
  writer_.set_last_own_step(line_of(loaded_from_, config_.checkpoint.load.folder, state.progress.global_step));
  ASSIGN_OR_RETURN(const Continued how, continue_from(progress, state, warnings));
  if (how.is_finished) {
    return fmt::format(
        "{} is the end of this training, at step {}: nothing is left to do; raise --epochs to continue, or use "
        "--resume=never to start from the beginning",
        loaded->path, progress.global_step);
  }
  return fmt::format("resumed from {} at epoch {}, step {} (--resume=never starts from the beginning){}", loaded->path,
                     progress.epoch + 1, progress.global_step, how.note);
}

Result<std::string> Checkpoints::resume_from_memory(FoundInMemory& found, checkpoint::Progress& progress,
                                                    std::vector<std::string>& warnings) {
  checkpoint::TrainingState state = state_of(found.handover ? found.handover->earlier.progress : progress);
  if (found.handover) {
    writer_.set_last_own_step(found.handover->last_own_step);
  } else {
    FoundReplicas& copies = *found.copies;
    const optim::Options own = optim::options_of(*training_.optimizer);
    ASSIGN_OR_RETURN(const auto ranks, writer_.group());
    RETURN_IF_ERROR(checkpoint::load(
        copies.checkpoint, [&] { return fetch_replicas(copies, *replicas_.copies, context_); }, state, *ranks));
    replicas_.copies->keep_only(copies.name);
    optim::set_options(*training_.optimizer, own);
    loaded_from_ = copies.checkpoint.path();
    writer_.set_last_own_step(copies.last_own_step);
  }
  resumed_from_memory_ = true;
  ASSIGN_OR_RETURN(const Continued how, continue_from(progress, state, warnings));
  return fmt::format("continues from {} at epoch {}, step {}{}",
                     found.handover ? found.handover->earlier.path : "replicas in " + loaded_from_, progress.epoch + 1,
                     progress.global_step, how.note);
}

/// Lets the average of the weights begin with the model's present ones.
void Checkpoints::begin_average() {
  if (training_.average) {
    training_.average->update(0);
  }
}

/// Continues at the position of `state`, which was loaded.
Result<Continued> Checkpoints::continue_from(checkpoint::Progress& progress, const checkpoint::TrainingState& state,
                                             std::vector<std::string>& warnings) {
  const data::Datasets& datasets = training_.data.datasets;
  ASSIGN_OR_RETURN(Continued how, continue_at(progress, state.progress, config_, datasets, context_, warnings));
  if (context_.rank < state.rng_per_rank.size()) {
    RETURN_IF_ERROR(checkpoint::set_cpu_rng_state(state.rng_per_rank[context_.rank]));
  }
  ASSIGN_OR_RETURN(const std::string of_best,
                   best_.resume(progress, validates_otherwise(state.progress.data, datasets)));
  how.note += of_best;
  ends_an_epoch_ = how.ends_an_epoch;
  replicas_.began_at = progress.global_step;
  return how;
}

/// Fills the model as setting `init-from` says; returns part of a line for people.
Result<std::string> Checkpoints::init() {
  const std::string& path = config_.checkpoint.init_from;
  ASSIGN_OR_RETURN(const auto ranks, writer_.group());
  ASSIGN_OR_RETURN(const auto begun, checkpoint::init_from(path, *training_.model, sharding_.get(),
                                                           config_.checkpoint.load.verify, *ranks));
  const std::string changes = begun.changes.empty() ? "" : fmt::format(" ({})", fmt::join(begun.changes, "; "));
  if (begun.left_out.empty()) {
    return fmt::format("; the model starts from {}{}", path, changes);
  }
  return fmt::format("; the model starts from {}{}, except for its last layer: {}", path, changes,
                     fmt::join(begun.left_out, ", "));
}

Result<void> Checkpoints::confirm_same_step(const checkpoint::Progress& progress) const {
  const std::int64_t step = progress.global_step;
  at::Tensor sums = torch::tensor({step, step * step, std::int64_t{1}}, at::kLong);
  RETURN_IF_ERROR(process_group::all_reduce_sum(context_.process_group, sums));
  const std::int64_t* const sum = sums.const_data_ptr<std::int64_t>();
  if (sum[0] == step * sum[2] && sum[1] == step * step * sum[2]) {
    return {};
  }
  return fail("--resume", config_.checkpoint.load.resume,
              fmt::format("ranks found checkpoints of different steps; this one found step {}", step),
              "making all nodes see the same checkpoint folder, or --resume=FILE", ErrorKind::Mismatch);
}

Result<bool> Checkpoints::save(checkpoint::Progress& progress, Urgency urgency, bool others_saving) {
  if (!writer_.may_save(urgency, others_saving)) {
    return false;
  }
  if (urgency != Urgency::Final && writer_.gave_up()) {  // all ranks have the same outcomes here
    return writer_.last_failure();
  }
  const double begun = seconds_now();
  RETURN_IF_ERROR(best_.is_about_to_be_saved(progress.global_step) ? Result<void>() : best_.settle(progress));
  ASSIGN_OR_RETURN(const checkpoint::StateParts parts, parts_to_save(progress, true));
  checkpoint::background::Destination destination{.folder = config_.checkpoint.load.folder,
                                                  .step = progress.global_step,
                                                  .retention = best_.retention(progress),
                                                  .staging_dir = config_.checkpoint.stage};
  destination.best_step = config_.checkpoint.keep_best > 0 ? progress.best_step : -1;
  if (lease_ != nullptr) {
    destination.check_ownership = [lease = lease_]() -> Result<void> {
      return lease->lost_by_now() ? lease->taken_over() : Result<void>();
    };
  }
  RETURN_IF_ERROR(
      writer_.save(std::move(destination), parts, {parameter_keys_.begin(), parameter_keys_.end()}, urgency, begun));
  return true;
}

/// Returns this rank's part of the state. Errors, the same on all ranks: BadData: a number of it is not finite, on any
/// rank; CannotCreate: another run has taken the folder; Usage: no memory for copies; Unavailable: the ranks could not
/// be connected again for saving. `looks`: whether to read the lease's file, which a file system may delay.
Result<checkpoint::StateParts> Checkpoints::parts_to_save(const checkpoint::Progress& progress, bool looks) {
  ASSIGN_OR_RETURN(checkpoint::StateParts parts,
                   checkpoint::collect(state_of(progress), context_.rank, context_.world_size));
  const auto numbers = numbers_of(parts);
  const bool finite = precision::all_finite(numbers.values());
  const bool lost = lease_ != nullptr && (looks ? lease_->lost_by_now() : lease_->lost());
  // A file system may delay the look at the lease on any rank, so the ranks first wait with the timeout of saves.
  ASSIGN_OR_RETURN(const auto ranks, writer_.sum_over_ranks({std::int64_t{lost}, std::int64_t{!finite}}));
  if (ranks[0] > 0) {
    return taken_over();
  }
  if (ranks[1] > 0) {
    return state_not_finite(precision::first_not_finite(numbers), progress.global_step, has_checkpoint());
  }
  checkpoint::add_generator(parts, context_.rank, context_.world_size);
  return parts;
}

void Checkpoints::make_room(const checkpoint::Progress& progress) {
  const bool saves =
      config_.checkpoint.every_steps > 0 || config_.checkpoint.every_epochs > 0 || config_.parallel.replicate_steps > 0;
  if (has_room_ || context_.device.type() == at::kCPU || !saves || writer_.under_way()) {
    return;
  }
  if (const auto parts = checkpoint::collect(state_of(progress), context_.rank, context_.world_size)) {
    writer_.make_room(*parts, {parameter_keys_.begin(), parameter_keys_.end()});
    has_room_ = true;
  }  // otherwise a save reports the error
}

Result<bool> Checkpoints::replicate(const checkpoint::Progress& progress, bool others_saving, bool may_skip) {
  if (may_skip && others_saving) {
    return false;
  }
  writer_.finish_save();
  const double begun = seconds_now();
  checkpoint::Progress to_save = progress;
  best_.restore_displaced(to_save);
  ASSIGN_OR_RETURN(checkpoint::StateParts parts, parts_to_save(to_save, false));
  RETURN_IF_ERROR(replicas_.last < 0 ? check_memory(parts) : Result<void>());
  if (context_.rank == 0) {
    parts.values[kLastOwnStep] = writer_.last_own_step_at(progress.global_step);
  }
  replicas_.last = progress.global_step;
  replicas_.number += 1;
  RETURN_IF_ERROR(writer_.replicate_to_peer({.generation = replicas_.generation,
                                             .step = progress.global_step,
                                             .number = replicas_.number,
                                             .owners = context_.world_size,
                                             .owner = context_.rank},
                                            parts, {parameter_keys_.begin(), parameter_keys_.end()}, *replicas_.copies,
                                            begun));
  return true;
}

/// Checks that all ranks have the memory that replicas of `parts` take. Collective. Errors: Usage: a rank has not;
/// Unavailable: a peer was lost.
Result<void> Checkpoints::check_memory(const checkpoint::StateParts& parts) const {
  constexpr std::uint64_t kCopies = 5;  // own and peer's parts of two steps, and the copy of a background save
  const std::uint64_t needed = kCopies * checkpoint::bytes_of(parts);
  const bool fits = context_.share.memory == 0 || needed <= context_.share.memory;
  return process_group::agree_or_fail(
      context_.process_group,
      fits ? Result<void>()
           : fail("--replicate-to", "neighbour",
                  fmt::format("peer replicas take {}, but each rank has {} of memory", metrics::human_bytes(needed),
                              metrics::human_bytes(context_.share.memory)),
                  "requesting more memory for each task (--mem-per-cpu), or leaving it out"));
}

Error Checkpoints::taken_over() const {
  return lease_ != nullptr && lease_->lost() ? lease_->taken_over()
                                             : train::taken_over({"--checkpoint-dir", config_.checkpoint.load.folder});
}

bool Checkpoints::replica_due_after_step(std::int64_t global_step) const {
  const std::int64_t every = config_.parallel.replicate_steps;
  return replicas_.copies != nullptr && every > 0 && (replicas_.last < 0 || global_step - replicas_.last >= every);
}

bool Checkpoints::replica_overdue_after_step(std::int64_t global_step) const {
  return replica_due_after_step(global_step) &&
         global_step - std::max(replicas_.last, replicas_.began_at) >= 2 * config_.parallel.replicate_steps;
}

bool Checkpoints::due_after_step(std::int64_t global_step) const {
  const std::int64_t every = config_.checkpoint.every_steps;
  return every > 0 && global_step % every == 0;
}

bool Checkpoints::due_after_epoch(std::int64_t finished_epochs) const {
  const std::int64_t every = config_.checkpoint.every_epochs;
  return every > 0 && finished_epochs % every == 0;
}

}  // namespace rollcall::train
