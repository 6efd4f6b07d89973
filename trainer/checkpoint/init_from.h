#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/rank_group.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/sharding.h"

namespace rollcall::checkpoint {

/// Fills `model` with the parameters and buffers of checkpoint `path`, for a training that begins with them: optimizer
/// and progress of the checkpoint do not matter. The last layer may be of another number of classes: then it stays as
/// it is, and is told: one text a tensor, "fc.bias: [10] there and [4] here". All or nothing. Collective.
///
/// Errors, the same on all ranks: Mismatch where any other tensor is missing, or of another shape or type; those of
/// format::CheckpointReader.
[[nodiscard]] Result<std::vector<std::string>> init_from(const std::string& path, const torch::nn::Module& model,
                                                         const Sharding* sharding, format::VerifyLevel level,
                                                         format::RankGroup& group);

}  // namespace rollcall::checkpoint
