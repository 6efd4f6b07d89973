#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

namespace rollcall::precision {

/// Whether all numbers of `tensors`, of floating point types, are finite; true for none. Reads each number once by the
/// operator of a norm, which is the fastest on CPUs and one kernel on GPUs; only where a norm is not finite, which
/// large numbers may do too, once more and exactly. No gradient is recorded.
[[nodiscard]] bool all_finite(const std::vector<at::Tensor>& tensors);

/// The gradients that the optimizer's parameters have on this rank, without the empty ones that a shard may be.
[[nodiscard]] std::vector<at::Tensor> gradients_of(const torch::optim::Optimizer& optimizer);

/// The key of the first tensor of `named` with a number that is not finite; empty where there is none.
[[nodiscard]] std::string first_not_finite(const torch::OrderedDict<std::string, at::Tensor>& named);

}  // namespace rollcall::precision
