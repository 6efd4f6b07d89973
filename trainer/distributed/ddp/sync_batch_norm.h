#pragma once

#include <torch/torch.h>

#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::parallel {

/// Makes all model::BatchNorm of `module` normalise, in training, with the batches of all ranks of `group` together;
/// see model::BatchNormImpl::share_statistics. Returns how many there are. A null `group` changes nothing. The module
/// holds the group from then on. Not collective itself.
std::size_t synchronise_batch_norms(torch::nn::Module& module, const process_group::Group& group);

}  // namespace rollcall::parallel
