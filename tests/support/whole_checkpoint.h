#pragma once

#include <torch/version.h>

#include <optional>
#include <string>

#include "trainer/checkpoint/background/commit.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/device_copies.h"

// A training's state to a checkpoint and back in one call, as the trainer does it in several.
namespace rollcall::checkpoint {

/// Saves `state` as <folder>/step-<global_step>.h5, atomically and verified, then drops what `retention` does not keep;
/// the checkpoint of progress.best_step stays. Collective: every rank of `group` gives its part of the model; it must
/// not change meanwhile. `rng_per_rank` of rank 0 counts. Errors: those of collect() and background::commit().
inline Result<void> save(const std::string& folder, const TrainingState& state, const format::Retention& retention,
                         format::RankGroup& group) {
  const auto parts = collect(state, group.rank(), group.size());
  RETURN_IF_ERROR(format::agree(group, parts ? Result<void>() : Result<void>(parts.error())));
  DeviceCopies copies;
  const HostContent host = on_host(*parts, copies);
  return background::commit({folder, state.progress.global_step, state.progress.best_step, retention}, host.content,
                            {.writer = "rollcall-train", .torch_version = TORCH_VERSION}, group);
}

/// Of a process by itself.
inline Result<void> save(const std::string& folder, const TrainingState& state, const format::Retention& retention) {
  format::SingleRank alone;
  return save(folder, state, retention, alone);
}

/// Of a process by itself, fully verified.
inline Result<std::optional<LoadedInfo>> load(const std::string& resume, const std::string& folder,
                                              TrainingState& state) {
  format::SingleRank alone;
  return load({.resume = resume, .folder = folder}, state, alone);
}

}  // namespace rollcall::checkpoint
