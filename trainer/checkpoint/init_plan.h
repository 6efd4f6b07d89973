#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/source.h"
#include "trainer/checkpoint/read_plan.h"
#include "trainer/checkpoint/state_parts.h"
#include "trainer/torch.h"

namespace rollcall::checkpoint {

/// The differences between a model and the weights from which it starts, for people.
struct InitInfo {
  std::vector<std::string> changes;  ///< "float16 converted to float32"
  /// Tensors of the last layer: "fc.bias is [10] in the file and [4] in this model".
  std::vector<std::string> left_out;
};

struct InitPlan {
  ReadPlan reads;
  InitInfo info;
};

/// Plans to fill `model` with the weights of any training, their average if there is one (--ema), by the rules of
/// load_state_dict(strict=True): elements are converted to the model's type, and counters of batch norms may be missing
/// and keep their values. The names may have a common prefix ("model."): the one with which most of the model's names
/// are found. The last layer may be missing or have another number of classes; then it keeps its values. Tensors
/// without the prefix are ignored.
///
/// Errors (Mismatch): another tensor is missing, has another shape, or is not in the model; the reason names the first.
/// Also if the file holds several whole models with different prefixes.
[[nodiscard]] Result<InitPlan> plan_init(const format::CheckpointSource& source, const torch::nn::Module& model,
                                         const Sharding* sharding);

}  // namespace rollcall::checkpoint
