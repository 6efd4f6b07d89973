#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/content_builder.h"
#include "trainer/checkpoint/sharding.h"
#include "trainer/checkpoint/stored_content.h"

namespace rollcall::checkpoint {

/// Adds /optimizer/type, /optimizer/param_groups and /optimizer/state/<key>/... of an SGD or AdamW optimizer. `keys`:
/// names of its parameters, group after group. Collective where `sharding` is not null. Errors (Internal): another kind
/// of optimizer, or keys that do not fit.
[[nodiscard]] Result<void> add_optimizer(ContentBuilder& builder, const torch::optim::Optimizer& optimizer,
                                         const std::vector<std::string>& keys, const Sharding* sharding);

/// New state and options of an optimizer, complete and checked but not yet in use.
struct OptimizerPlan {
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;  ///< one a group
  std::vector<std::pair<void*, std::unique_ptr<torch::optim::OptimizerParamState>>> states;

  /// Replaces the optimizer's whole state. Only once.
  void carry_out(torch::optim::Optimizer& optimizer);
};

/// Reads what add_optimizer wrote. Errors: Mismatch where kind, groups, parameters or shapes differ; BadData where a
/// part is missing; Internal as above.
[[nodiscard]] Result<OptimizerPlan> plan_optimizer(const torch::optim::Optimizer& optimizer,
                                                   const std::vector<std::string>& keys, const Sharding* sharding,
                                                   const StoredContent& stored, const std::string& path);

}  // namespace rollcall::checkpoint
