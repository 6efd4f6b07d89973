#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

namespace rollcall::checkpoint {

/// The name of each of the optimizer's parameters, group after group, by the tensors that it was made from; empty for a
/// parameter that is not in `named`.
[[nodiscard]] std::vector<std::string> parameter_keys(const torch::OrderedDict<std::string, at::Tensor>& named,
                                                      const torch::optim::Optimizer& optimizer);

}  // namespace rollcall::checkpoint
