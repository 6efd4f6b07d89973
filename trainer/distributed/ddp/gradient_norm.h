#pragma once

#include <torch/torch.h>
#include <vector>

#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::parallel {

/// Scales the gradients of `parameters` so that their common 2-norm is at most `max_norm` > 0, as torch's
/// clip_grad_norm_ does; sums are taken in float64, so that dividing the work otherwise changes nothing that float32
/// shows. Parameters are on one device, which the group has a back end for. `group`: the ranks whose gradients belong
/// to one model; null where this rank has all. Returns the norm before. Collective over `group`. Throws what c10d
/// throws.
double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm, const process_group::Group& group);

}  // namespace rollcall::parallel
