#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

namespace rollcall::checkpoint {

/// The state dict's name of each of the optimizer's parameters, group after group; empty for a parameter that is not in
/// `model`.
[[nodiscard]] std::vector<std::string> parameter_keys(const torch::nn::Module& model,
                                                      const torch::optim::Optimizer& optimizer);

}  // namespace rollcall::checkpoint
