#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rollcall::checkpoint {

/// This rank's rows of a parameter that is divided along dimension 0.
struct Shard {
  at::Tensor rows;
  std::vector<std::int64_t> whole_shape;  ///< empty: a scalar, which one rank has as one row and the others as none
  std::int64_t first_row = 0;
};

/// How parameters, and with them the optimizer's state, are divided among ranks. A checkpoint knows only whole tensors:
/// each rank writes its rows of them, and reads those that it needs.
class Sharding {
 public:
  virtual ~Sharding() = default;

  /// Of parameter `key`; nothing for what every rank has whole, as buffers.
  [[nodiscard]] virtual std::optional<Shard> shard(const std::string& key) const = 0;
  /// Whether this rank writes its shards: of several ranks with the same ones only one does.
  [[nodiscard]] virtual bool writes() const = 0;
};

}  // namespace rollcall::checkpoint
