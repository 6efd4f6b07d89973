#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/read_plan.h"
#include "trainer/checkpoint/state_parts.h"

namespace rollcall::checkpoint {

/// Adds /optimizer/type, /optimizer/param_groups and /optimizer/state/<key>/... of an SGD or AdamW optimizer. `keys`:
/// names of its parameters, group after group. Errors (Internal): another kind of optimizer, or keys that do not fit.
[[nodiscard]] Result<void> add_optimizer(StateParts& parts, const torch::optim::Optimizer& optimizer,
                                         const std::vector<std::string>& keys, const Sharding* sharding);

/// New state and options of an optimizer, complete and checked but not yet in use.
struct OptimizerPlan {
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;  ///< one a group
  std::vector<std::pair<void*, std::unique_ptr<torch::optim::OptimizerParamState>>> states;

  /// Replaces the optimizer's whole state. Only once.
  void carry_out(torch::optim::Optimizer& optimizer);
};

/// What add_optimizer wrote; the tensors' values come when `reads` is carried out. Errors: Mismatch where kind, groups,
/// parameters or shapes differ; BadData where a part is missing; Internal as above.
[[nodiscard]] Result<OptimizerPlan> plan_optimizer(ReadPlan& reads, const torch::optim::Optimizer& optimizer,
                                                   const std::vector<std::string>& keys, const Sharding* sharding,
                                                   const OpenCheckpoint& stored);

}  // namespace rollcall::checkpoint
