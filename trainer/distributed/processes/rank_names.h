#pragma once

#include <cstdint>
#include <string>

namespace rollcall::process_group {

/// How messages call the ranks of a group: by their numbers in the step, of which the group may be a part. A row or a
/// column of a grid of ranks, as of Mesh, is such a part; by default it is the step itself.
struct RankNames {
  std::uint32_t first = 0;   ///< the number in the step of the group's rank 0
  std::uint32_t stride = 1;  ///< from each rank of the group to the next
  std::uint32_t ranks = 0;   ///< of the step; 0: as many as the group has

  [[nodiscard]] std::uint32_t number(std::uint32_t rank) const { return first + rank * stride; }
  /// "rank 6"
  [[nodiscard]] std::string of(std::uint32_t rank) const { return "rank " + std::to_string(number(rank)); }
};

}  // namespace rollcall::process_group
