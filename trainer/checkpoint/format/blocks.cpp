#include "trainer/checkpoint/format/blocks.h"

#include <algorithm>

namespace rollcall::checkpoint::format {
namespace {

/// Where the block that holds byte `offset` ends at the latest.
std::uint64_t block_end(std::uint64_t offset) { return (offset / kBlockBytes + 1) * kBlockBytes; }

/// Whether `next` is to be written together with `block`, before it in the file. A short gap is padding only between
/// data sets: within one it holds bytes of other ranks.
bool belongs_to(const Block& block, const PlacedSlice& next) {
  const std::uint64_t gap = next.file_offset - block.end;
  const bool padding = gap < kAlignment && block.slices.back().reaches_end && next.first_byte == 0;
  return (gap == 0 || padding) && next.file_offset < block_end(block.begin);
}

/// The first `count` bytes of `slice`, which loses them.
PlacedSlice cut_off(PlacedSlice& slice, std::uint64_t count) {
  PlacedSlice first = slice;
  first.bytes = slice.bytes.first(count);
  first.reaches_end = slice.reaches_end && count == slice.bytes.size();
  slice.bytes = slice.bytes.subspan(count);
  slice.file_offset += count;
  slice.first_byte += count;
  return first;
}

}  // namespace

std::vector<Block> cut_into_blocks(std::vector<PlacedSlice> slices) {
  std::sort(slices.begin(), slices.end(),
            [](const PlacedSlice& a, const PlacedSlice& b) { return a.file_offset < b.file_offset; });
  std::vector<Block> blocks;
  for (PlacedSlice& slice : slices) {
    while (!slice.bytes.empty()) {
      if (blocks.empty() || !belongs_to(blocks.back(), slice)) {
        blocks.push_back({slice.file_offset, slice.file_offset, {}});
      }
      Block& block = blocks.back();
      const std::uint64_t room = block_end(slice.file_offset) - slice.file_offset;
      block.slices.push_back(cut_off(slice, std::min<std::uint64_t>(room, slice.bytes.size())));
      block.end = block.slices.back().file_offset + block.slices.back().bytes.size();
    }
  }
  return blocks;
}

}  // namespace rollcall::checkpoint::format
