#pragma once

#include <cstdint>
#include <span>

#include "trainer/data/image/coded_blocks.h"

namespace rollcall::data {

/// A tile's coded data without stuffed zeros, and where its coefficients go.
struct CodedTile {
  const std::uint8_t* begin = nullptr;
  const std::uint8_t* end = nullptr;  ///< kCodedSlack readable bytes follow
  std::int16_t* blocks = nullptr;     ///< [block_count][64], which are zero
  int block_count = 0;                ///< the tile's first ones, whole MCUs; may be none
  bool is_whole = false;              ///< these are all blocks of the tile: the data must end with them
};

/// Decodes the coefficients of tiles, several at once. Whether all of them held nothing but valid codes; where one did
/// not, some of the coefficients mean nothing. Thread-safe.
[[nodiscard]] bool decode_tiles(std::span<const CodedTile> tiles, const CodedMcu& mcu);

}  // namespace rollcall::data
