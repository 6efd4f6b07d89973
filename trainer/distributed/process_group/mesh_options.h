#pragma once

#include <cstdint>

namespace rollcall::process_group {

/// The sizes of a Mesh's groups.
struct MeshOptions {
  std::uint32_t shard_degree = 0;      ///< ranks that divide a model; 0: the world size / replicate_degree
  std::uint32_t replicate_degree = 0;  ///< ranks with the same part; 0: the world size / shard_degree
  std::uint32_t reshard_degree = 0;    ///< size of Mesh::reshard; 0: no such group
};

}  // namespace rollcall::process_group
