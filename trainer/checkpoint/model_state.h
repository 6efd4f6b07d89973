#pragma once

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/content_builder.h"
#include "trainer/checkpoint/sharding.h"
#include "trainer/checkpoint/stored_content.h"

namespace rollcall::checkpoint {

/// Adds /model/... and /model_keys. `sharding` null: the model is whole; otherwise collective.
void add_model(ContentBuilder& builder, const torch::nn::Module& model, const Sharding* sharding);

/// Copies that are to be made, everything about them having been checked.
struct ModelPlan {
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  ///< into, from

  /// Copies, without recording gradients; the targets keep their memory and strides.
  void carry_out() const;
};

/// Finds the source of every tensor of `model`. Errors (Mismatch): a key is missing on one side, or shape or type
/// differ; the reason names the first.
[[nodiscard]] Result<ModelPlan> plan_model(const torch::nn::Module& model, const Sharding* sharding,
                                           const StoredContent& stored, const std::string& path);

}  // namespace rollcall::checkpoint
