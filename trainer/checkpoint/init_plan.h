#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/source.h"
#include "trainer/checkpoint/read_plan.h"
#include "trainer/checkpoint/state_parts.h"
#include "trainer/torch.h"

namespace rollcall::checkpoint {

/// How a model differs from the weights that it began with, for people.
struct InitInfo {
  std::vector<std::string> changes;   ///< "float16 taken as float32"
  std::vector<std::string> left_out;  ///< of the last layer, one a tensor: "fc.bias is [10] there and [4] here"
};

struct InitPlan {
  ReadPlan reads;
  InitInfo info;
};

/// Has `model` filled by weights of whatever training, as load_state_dict(strict=True) takes them: elements become the
/// model's type, and batch norms' counters may be missing and stay as they are. The names may have
/// something before them ("model."): what most of the model's are found with. The last layer may be missing or of
/// another number of classes, and then stays as it is. Tensors without what is before the names do not matter.
///
/// Errors (Mismatch): any other tensor is missing, of another shape, or there and not in the model; the reason names
/// the first. Or several whole models are there, each with something else before its names.
[[nodiscard]] Result<InitPlan> plan_init(const format::CheckpointSource& source, const torch::nn::Module& model,
                                         const Sharding* sharding);

}  // namespace rollcall::checkpoint
