#pragma once

#include <torch/torch.h>

#include <string>

namespace rollcall::checkpoint {

/// How parameters, and with them the optimizer's state, are divided among ranks. A checkpoint knows only whole tensors:
/// saving gathers them one by one, loading takes this rank's part of each.
class Sharding {
 public:
  virtual ~Sharding() = default;

  /// This rank's part of parameter `key`; undefined for what every rank has whole, as buffers.
  [[nodiscard]] virtual at::Tensor shard(const std::string& key) const = 0;
  /// The whole of which `part` is this rank's: the parameter or an optimizer's state for it. On the rank that saves;
  /// undefined elsewhere. Collective. May throw.
  [[nodiscard]] virtual at::Tensor gather(const std::string& key, const at::Tensor& part) const = 0;
  /// This rank's part of a tensor of the whole parameter's shape; a view.
  [[nodiscard]] virtual at::Tensor part_of(const std::string& key, const at::Tensor& whole) const = 0;
};

}  // namespace rollcall::checkpoint
