#pragma once

#include <torch/torch.h>

#include "runtime/base/result.h"
#include "trainer/checkpoint/read_plan.h"
#include "trainer/checkpoint/state_parts.h"

namespace rollcall::checkpoint {

/// The path of a key of the state dict: "/model/layer1/0/conv1/weight".
[[nodiscard]] std::string model_path(std::string key);

/// How a stored tensor (null: there is none) differs from ours, or an empty text: "fc.bias is [10] there and [4] here".
[[nodiscard]] std::string difference(const std::string& key, at::IntArrayRef sizes, at::ScalarType type,
                                     const format::ManifestEntry* stored);

/// Adds /model/... and /model_keys. `sharding` null: every rank has the whole model.
void add_model(StateParts& parts, const torch::nn::Module& model, const Sharding* sharding);

/// Has every tensor of `model` filled by `plan`. Errors (Mismatch): a key is missing on one side, or shape or type
/// differ; the reason names the first.
[[nodiscard]] Result<void> plan_model(ReadPlan& plan, const torch::nn::Module& model, const Sharding* sharding,
                                      const OpenCheckpoint& stored);

}  // namespace rollcall::checkpoint
