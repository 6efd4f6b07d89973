#pragma once

#include "trainer/device/cuda/kernels/kernels.h"
#include "trainer/device/cuda/kernels/tiling.h"

namespace rollcall::device::kernels {

// The order in which the results of blocks of rows are merged. It is fixed, and the same in both ways to do it:
// - a kernel of its own, whose blocks have kMergingLanes lanes. Lane l takes the parts l, l + 64, ... one after the
//   other; then lanes merge as in each reduction (merge_lanes());
// - in the kernel that makes the parts. The last block to finish of each group g, of the parts g, g + 16, ..., merges
//   the group, and the last of these blocks merges the groups, a thread a channel. Nothing waits for another block.
//
// A body that merges has: `tiling`, of [parts][channels]; State part(i, c); void keep(group, c, State), which writes
// part(tiling.rows + group); void finish(c, State), which writes the result.

inline constexpr int kMergingColumns = 8;
inline constexpr int kMergingLanes = kThreads / kMergingColumns;
/// The number of groups; a lane's place among those of its group is lane / kGroups.
inline constexpr int kGroups = 16;
/// Parts of a lane at most, of blocks of rows.
inline constexpr int kPartsOfALane = (kBlocks + kMergingLanes - 1) / kMergingLanes;

/// Returns the tiling of a kernel that merges `parts`: few channels a block, so that many lanes share the parts.
inline Tiling merging(std::int64_t parts, std::int64_t channels) {
  return {.rows = static_cast<int>(parts),
          .channels = channels,
          .block_rows = static_cast<int>(parts),
          .columns = kMergingColumns,
          .lanes = kMergingLanes,
          .channel_blocks = static_cast<int>((channels + kMergingColumns - 1) / kMergingColumns),
          .row_blocks = 1};
}

/// Merges leaf(lane) of all lanes from `lane` on, in steps of kStep below kLanes, in the order of merge_lanes().
template <int kStep, int kLanes, typename Leaf>
ROLLCALL_HOST_DEVICE inline auto merge_tree(int lane, const Leaf& leaf) {
  if constexpr (kStep == kLanes) {
    return leaf(lane);
  } else {
    auto merged = merge_tree<2 * kStep, kLanes>(lane, leaf);
    merge(merged, merge_tree<2 * kStep, kLanes>(lane + kStep, leaf));
    return merged;
  }
}

/// Returns what a group's lanes have of channel c when kGroups lanes are left.
template <typename Merging>
ROLLCALL_HOST_DEVICE inline auto merged_group(const Merging& body, int group, std::int64_t c) {
  using State = typename Merging::State;
  const int parts = body.tiling.rows;
  return merge_tree<kGroups, kMergingLanes>(group, [&](int lane) {
    State of_lane{};
    for (int k = 0; k < kPartsOfALane; ++k) {
      const int part = lane + k * kMergingLanes;
      merge(of_lane, part < parts ? body.part(part, c) : State{});
    }
    return of_lane;
  });
}

/// The number of groups that have parts.
ROLLCALL_HOST_DEVICE inline int groups_of(int parts) { return parts < kGroups ? parts : kGroups; }

/// What a thread of a block of rows has to merge, if its block is the last one. Blocks of other channels do not matter.
struct MergingBlock {
  Tiling tiling;  ///< of the blocks
  ThreadIndex place;
  unsigned k;  ///< channels of a thread

  ROLLCALL_HOST_DEVICE std::int64_t channels() const { return static_cast<std::int64_t>(tiling.columns) * k; }
  ROLLCALL_HOST_DEVICE std::int64_t channel() const { return place.block_x * channels() + place.thread; }
  ROLLCALL_HOST_DEVICE bool has_channel() const { return place.thread < channels() && channel() < tiling.channels; }
  ROLLCALL_HOST_DEVICE int group() const { return place.block_y % kGroups; }
  ROLLCALL_HOST_DEVICE int members() const { return (tiling.row_blocks - group() + kGroups - 1) / kGroups; }
  ROLLCALL_HOST_DEVICE int groups() const { return groups_of(tiling.row_blocks); }
  /// The counter of the groups, followed by those of each group's blocks.
  ROLLCALL_HOST_DEVICE int first_counter() const { return place.block_x * (kGroups + 1); }
};
static_assert(kGroups + 1 == kCountersOfAChannel);

/// What a thread of the last block of a group does for channel c: writes the group's part, behind those of all blocks.
template <typename Merging>
ROLLCALL_HOST_DEVICE inline void merge_group(const Merging& body, int group, std::int64_t c) {
  body.keep(group, c, merged_group(body, group, c));
}

/// What a thread of the last block of all does for channel c.
template <typename Merging>
ROLLCALL_HOST_DEVICE inline void merge_groups(const Merging& body, std::int64_t c) {
  using State = typename Merging::State;
  const int groups = groups_of(body.tiling.rows);
  body.finish(c, merge_tree<1, kGroups>(
                     0, [&](int group) { return group < groups ? body.part(body.tiling.rows + group, c) : State{}; }));
}

/// Returns what a thread of a kernel of its own merges, as begin() of other reductions does.
template <typename Merging>
ROLLCALL_HOST_DEVICE inline auto merge_parts(const Merging& body, const ThreadIndex& place) {
  typename Merging::State merged{};
  const Tile tile = body.tiling.template tile<1>(place);
  if (tile.inside) {
    over_rows<2>(
        tile, [&](int part) { return body.part(part, tile.channel); },
        [&](int, const auto& part) { merge(merged, part); });
  }
  return merged;
}

}  // namespace rollcall::device::kernels
