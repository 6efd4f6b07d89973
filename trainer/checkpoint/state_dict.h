#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

namespace rollcall::checkpoint {

/// An entry of a state dict. The tensor shares its memory with the module.
struct NamedTensor {
  std::string key;  ///< "layer1.0.conv1.weight"
  at::Tensor tensor;
};

/// Parameters and buffers in the order of Python's Module.state_dict(): of each module its own parameters, its buffers,
/// then its children.
[[nodiscard]] std::vector<NamedTensor> state_dict(const torch::nn::Module& model);

/// The state dict's name of each of the optimizer's parameters, group after group; empty for a parameter that is not in
/// `model`.
[[nodiscard]] std::vector<std::string> parameter_keys(const torch::nn::Module& model,
                                                      const torch::optim::Optimizer& optimizer);

}  // namespace rollcall::checkpoint
