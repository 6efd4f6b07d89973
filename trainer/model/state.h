#pragma once

#include <string>
#include <vector>

#include "trainer/torch.h"

namespace rollcall::model {

/// Returns parameters and buffers in the order and with the names of Python's `module.state_dict()`: for each module
/// its parameters, then its buffers (including num_batches_tracked), then its children. The tensors are the module's
/// own, not copies.
[[nodiscard]] torch::OrderedDict<std::string, at::Tensor> named_state(const torch::nn::Module& module);

/// Returns the keys of named_state().
[[nodiscard]] std::vector<std::string> state_keys(const torch::nn::Module& module);

/// Converts the weights of convolutions to channels-last (NHWC), as Python's
/// `module.to(memory_format=torch.channels_last)` does; pass the model channels-last images then. Call it before
/// anything takes views of the parameters (optimizer, data parallelism).
///
/// There is one difference from Python: a 1x1 weight [O, I, 1, 1] gets the strides [I, 1, I, I] instead of keeping [I,
/// 1, 1, 1]. Both describe the same memory, but a channels-last convolution gives its gradient the former, and c10d's
/// Reducer warns about other strides.
void use_channels_last(torch::nn::Module& module);

}  // namespace rollcall::model
