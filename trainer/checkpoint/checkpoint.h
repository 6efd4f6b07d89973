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
#include "trainer/optim/weight_average.h"
#include "trainer/torch.h"

namespace rollcall::checkpoint {

/// The contents of a checkpoint, which loading fills. The references outlive this object.
struct TrainingState {
  torch::nn::Module& model;
  torch::optim::Optimizer& optimizer;
  /// Names (keys of the model's state dict) of the optimizer's parameters, in the order of its groups.
  std::vector<std::string> parameter_keys_in_optimizer_order;
  Progress progress;
  std::vector<std::vector<std::byte>> rng_per_rank;  ///< cpu_rng_state() of each rank; may be empty
  std::string config_json;                           ///< settings; load() does not read them
  std::vector<std::string> argv;                     ///< command line, for people; load() does not read it
  std::string job{};                                 ///< number of the Slurm job; empty: none
  std::vector<std::string> class_names{};            ///< by label; empty: unknown; load() does not read them
  const Sharding* sharding = nullptr;                ///< null: this rank has the whole model
  const optim::WeightAverage* average = nullptr;     ///< null: the training has none
  bool lacks_average = false;                        ///< set by load(): the checkpoint has no average to fill it with
};

/// The checkpoint that was loaded.
struct LoadedInfo {
  std::string path;
  std::vector<std::string> warnings;  ///< on rank 0, for the user: damaged checkpoints that were skipped
};

/// What a file says about the model whose weights it holds.
struct StoredModel {
  std::string config_json;               ///< settings of its training; empty: another program wrote the file
  std::vector<std::string> class_names;  ///< name of each class; empty: the file does not name them
  std::int64_t classes = 0;              ///< outputs of the last layer
};

/// Returns the name of each of the optimizer's parameters, in the order of its groups; empty for a parameter that is
/// not in `named`.
[[nodiscard]] std::vector<std::string> parameter_keys(const torch::OrderedDict<std::string, at::Tensor>& named,
                                                      const torch::optim::Optimizer& optimizer);

/// Returns this rank's part of a checkpoint of `state` as rank `rank` of `size` ranks. Not collective; copies nothing.
/// Errors (Internal): the optimizer is of an unknown kind.
[[nodiscard]] Result<StateParts> collect(const TrainingState& state, std::uint32_t rank, std::uint32_t size);

/// Opens the checkpoint that --resume names. Errors: those of CheckpointReader::open(), of that setting; BadData: it is
/// a state dict, which is no training.
[[nodiscard]] Result<format::CheckpointReader> open_named(const std::string& path);

/// Fills model, optimizer (moments, steps, options with the learning rate), progress and rng_per_rank of `state` in
/// place: tensors keep their memory and strides. All or nothing, on all ranks: it compares all names, shapes and types
/// and reads all values before it changes the first tensor. Each rank reads only its rows of sharded tensors, whichever
/// ranks wrote them. Collective; the ranks load the same checkpoint.
///
/// Errors, the same on all ranks: Mismatch: it is of another model or optimizer; BadData, NoInput, InputOutput as of
/// format::CheckpointReader and format::use_latest.
[[nodiscard]] Result<std::optional<LoadedInfo>> load(const LoadOptions& options, TrainingState& state,
                                                     format::RankGroup& group);

/// Does the same as the load() above, from the memory of ranks: `checkpoint` collects the read requests of this rank,
/// and `fetch`, which is collective, passes all parts to its take(). Errors, the same on all ranks: those of load() and
/// of `fetch`.
[[nodiscard]] Result<void> load(const MemoryCheckpoint& checkpoint, const std::function<Result<void>()>& fetch,
                                TrainingState& state, format::RankGroup& group);

/// Fills `model` with the parameters and buffers of `path` (their average if it has one), a checkpoint or a state dict
/// that exchange::read_state_dict() accepts, for a training that starts from them. Ignores optimizer and progress, and
/// accepts what load_state_dict(strict=True) accepts (see plan_init()). All or nothing. Collective.
///
/// Errors, the same on all ranks: Mismatch: a tensor is missing or has another shape; those of format::CheckpointReader
/// and exchange::read_state_dict().
[[nodiscard]] Result<InitInfo> init_from(const std::string& path, const torch::nn::Module& model,
                                         const Sharding* sharding, format::VerifyLevel level, format::RankGroup& group);

/// Reads what the file `path`, of a kind that init_from() reads, says about its model. Not collective. Errors:
/// Mismatch: it has no last layer `fc`; those of init_from().
[[nodiscard]] Result<StoredModel> read_stored_model(const std::string& path);

}  // namespace rollcall::checkpoint
