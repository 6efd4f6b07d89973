#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/progress.h"
#include "trainer/checkpoint/sharding.h"

namespace rollcall::checkpoint {

using format::Retention;

/// What a checkpoint is made of, and what loading fills. The references outlive this object.
struct TrainingState {
  torch::nn::Module& model;
  torch::optim::Optimizer& optimizer;
  /// Names (keys of the model's state dict) of the optimizer's parameters, group after group.
  std::vector<std::string> parameter_keys_in_optimizer_order;
  Progress progress;
  std::vector<std::vector<std::byte>> rng_per_rank;  ///< cpu_rng_state() of each rank; may be empty
  std::string config_json;                           ///< the settings, for people; not read back
  std::vector<std::string> argv;                     ///< the command line, for people; not read back
  const Sharding* sharding = nullptr;                ///< null: this rank has all of the model
};

/// What was loaded.
struct LoadedInfo {
  std::string path;
  std::vector<std::string> warnings;  ///< damaged checkpoints that were passed over, for the user
};

/// Saves `state` as <folder>/step-<global_step>.h5, atomically and verified (see format::write_checkpoint), then drops
/// what `retention` does not keep; the checkpoint of progress.best_step stays, and best.h5 points to it. Called on one
/// rank only; the model must not change meanwhile. Tensors of other devices are copied to the host. Where the model is
/// sharded, all other ranks call take_part_in_saving() meanwhile.
///
/// Errors: CannotCreate, InputOutput (disk full, quota, damaged on the way): the folder's checkpoints are as before.
/// Internal where the optimizer is neither SGD nor AdamW.
[[nodiscard]] Result<void> save(const std::string& folder, const TrainingState& state, const Retention& retention);

/// What the other ranks do while one saves a sharded model: they give their parts.
[[nodiscard]] Result<void> take_part_in_saving(const TrainingState& state);

/// Fills model, optimizer (moments, steps, options with the learning rate), progress and rng_per_rank of `state`, in
/// place: tensors keep their memory and strides. `resume` is "never" (nothing happens), "auto" (the newest sound
/// checkpoint of `folder`, or nothing where there is none) or the path of a checkpoint. All or nothing: names, shapes
/// and types of everything are compared before the first tensor is touched. Every rank may call it; no communication.
///
/// Errors: Mismatch where it is of another model or optimizer; BadData, NoInput, InputOutput as of
/// format::read_checkpoint and format::find_latest_usable.
[[nodiscard]] Result<std::optional<LoadedInfo>> load(const std::string& resume, const std::string& folder,
                                                     TrainingState& state);

/// State of LibTorch's default CPU generator.
[[nodiscard]] std::vector<std::byte> cpu_rng_state();
/// Errors (BadData): the bytes are no such state.
[[nodiscard]] Result<void> set_cpu_rng_state(const std::vector<std::byte>& state);

}  // namespace rollcall::checkpoint
