#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rollcall::checkpoint::format {

/// A stretch of a data set in memory, and its place in the file.
struct PlacedSlice {
  std::uint64_t file_offset = 0;
  std::uint64_t dataset = 0;     ///< its number in the manifest
  std::uint64_t first_byte = 0;  ///< in the data set
  std::span<const std::byte> bytes;
  bool reaches_end = false;  ///< of the data set
};

/// A stretch of the file that is written in one go: slices with nothing but padding between them.
struct Block {
  std::uint64_t begin = 0;  ///< in the file
  std::uint64_t end = 0;
  std::vector<PlacedSlice> slices;

  [[nodiscard]] std::uint64_t size() const { return end - begin; }
};

/// Data sets begin at multiples of it; so what lies between two of them and is shorter is padding.
inline constexpr std::uint64_t kAlignment = 64;

/// Block length: long enough for a parallel file system's stripes (1 to 16 MiB), and to keep a disk busy.
inline constexpr std::uint64_t kBlockBytes = std::uint64_t{2} << 20U;

/// Cuts slices, in any order, into blocks of at most kBlockBytes that end at multiples of it where what is to be
/// written goes on. Slices that are cut become several. Pure.
[[nodiscard]] std::vector<Block> cut_into_blocks(std::vector<PlacedSlice> slices);

}  // namespace rollcall::checkpoint::format
