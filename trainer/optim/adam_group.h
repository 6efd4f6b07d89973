#pragma once

#include <cstddef>
#include <vector>

#include "trainer/optim/optimizer_kind.h"
#include "trainer/torch.h"

// What AdamW and LAMB share, with kAdamState.
namespace rollcall::optim {

/// Returns the options of a group with this weight decay.
[[nodiscard]] torch::optim::AdamWOptions adam_options(const OptimizerOptions& wanted, double weight_decay);

/// Adds the step to the counts of group `number`, which are on its device, unless it is skipped. In the first step they
/// are made from the states' counts. `parameters`: those of the group that have gradients and states.
void count_on_device(torch::optim::Optimizer& optimizer, const std::vector<at::Tensor>& parameters,
                     const StepOnDevice& step, std::size_t number);

}  // namespace rollcall::optim
