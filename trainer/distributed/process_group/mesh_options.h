#pragma once

#include <cstdint>

namespace rollcall::process_group {

/// Among how many ranks a model is divided, and how many have the same part.
struct MeshOptions {
  std::uint32_t shard_degree = 0;      ///< 0: what replicate_degree leaves
  std::uint32_t replicate_degree = 0;  ///< 0: what shard_degree leaves
  std::uint32_t reshard_degree = 0;    ///< size of `reshard`; 0: none
};

}  // namespace rollcall::process_group
