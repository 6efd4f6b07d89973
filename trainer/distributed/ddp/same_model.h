#pragma once

#include <torch/torch.h>

#include "runtime/base/result.h"
#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::parallel {

// What data parallelism of every kind begins with. Collective; `group` is not null.

/// Checks that all ranks have parameters of the same names, shapes, types and strides. Errors: (Mismatch) they do not;
/// the same error on every rank, which names the first difference; (Unavailable) a peer was lost.
[[nodiscard]] Result<void> verify_same_model(const torch::nn::Module& module, const process_group::Group& group);

/// Gives every rank rank 0's values. Throws what c10d throws.
void broadcast_values(const std::vector<at::Tensor>& tensors, const process_group::Group& group);

}  // namespace rollcall::parallel
