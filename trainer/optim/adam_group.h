#pragma once

#include <cstddef>
#include <vector>

#include "trainer/optim/optimizer_kind.h"
#include "trainer/torch.h"

namespace rollcall::optim {

/// The parameters of a group that have non-empty gradients, with their moments: what AdamW and LAMB share. Their states
/// are torch::optim::AdamWParamState.
struct AdamGroup {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> means;
  std::vector<at::Tensor> squares;
};

/// Returns a group's tensors; moments that do not exist yet are made, of zeros.
[[nodiscard]] AdamGroup adam_group(torch::optim::Optimizer& optimizer, const torch::optim::OptimizerParamGroup& group);

/// Adds the step to the counts of group `number`, which are on its device, unless it is skipped. In the first step they
/// are made from the states' counts.
void count_on_device(torch::optim::Optimizer& optimizer, const AdamGroup& group, const StepOnDevice& step,
                     std::size_t number);

}  // namespace rollcall::optim
