#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/format/rank_group.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/init_plan.h"
#include "trainer/checkpoint/memory_checkpoint.h"
#include "trainer/checkpoint/progress.h"
#include "trainer/checkpoint/state_parts.h"
#include "trainer/torch.h"

namespace rollcall::checkpoint {

/// What a checkpoint is made of, and what loading fills. The references outlive this object.
struct TrainingState {
  torch::nn::Module& model;
  torch::optim::Optimizer& optimizer;
  /// Names (keys of the model's state dict) of the optimizer's parameters, group after group.
  std::vector<std::string> parameter_keys_in_optimizer_order;
  Progress progress;
  std::vector<std::vector<std::byte>> rng_per_rank;  ///< cpu_rng_state() of each rank; may be empty
  std::string config_json;                           ///< the settings; not read back by load()
  std::vector<std::string> argv;                     ///< the command line, for people; not read back
  std::string job{};                                 ///< number of the Slurm job; empty: none
  const Sharding* sharding = nullptr;                ///< null: this rank has all of the model
};

/// What was loaded.
struct LoadedInfo {
  std::string path;
  std::vector<std::string> warnings;  ///< damaged checkpoints that were passed over, for the user; on rank 0
};

/// The name of each of the optimizer's parameters, group after group, by the tensors that it was made from; empty for a
/// parameter that is not in `named`.
[[nodiscard]] std::vector<std::string> parameter_keys(const torch::OrderedDict<std::string, at::Tensor>& named,
                                                      const torch::optim::Optimizer& optimizer);

/// What this rank gives to a checkpoint of `state`, of `size` ranks in which it is rank `rank`. Not collective; copies
/// nothing. Errors (Internal): the optimizer is of no known kind.
[[nodiscard]] Result<StateParts> collect(const TrainingState& state, std::uint32_t rank, std::uint32_t size);

/// Fills model, optimizer (moments, steps, options with the learning rate), progress and rng_per_rank of `state`, in
/// place: tensors keep their memory and strides. All or nothing, on all ranks: names, shapes and types of everything
/// are compared, and everything is read, before the first tensor is touched. Each rank reads only its rows of what is
/// divided, whoever wrote them. Collective; the ranks load the same checkpoint.
///
/// Errors, the same on all ranks: Mismatch where it is of another model or optimizer; BadData, NoInput, InputOutput as
/// of format::CheckpointReader and format::use_latest.
[[nodiscard]] Result<std::optional<LoadedInfo>> load(const LoadOptions& options, TrainingState& state,
                                                     format::RankGroup& group);

/// As load(), from the memory of ranks: `checkpoint` is asked for what this rank needs, and `fetch`, which is
/// collective, has it take() all parts. Errors, the same on all ranks: those of load() and of `fetch`.
[[nodiscard]] Result<void> load(const MemoryCheckpoint& checkpoint, const std::function<Result<void>()>& fetch,
                                TrainingState& state, format::RankGroup& group);

/// Fills `model` with the parameters and buffers of `path`, a checkpoint or a state dict that
/// exchange::read_state_dict() takes, for a training that begins with them: optimizer and progress do not matter, and
/// what is taken is what load_state_dict(strict=True) takes (see plan_init()). All or nothing. Collective.
///
/// Errors, the same on all ranks: Mismatch where a tensor is missing or of another shape; those of
/// format::CheckpointReader and exchange::read_state_dict().
[[nodiscard]] Result<InitInfo> init_from(const std::string& path, const torch::nn::Module& model,
                                         const Sharding* sharding, format::VerifyLevel level, format::RankGroup& group);

}  // namespace rollcall::checkpoint
