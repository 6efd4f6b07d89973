#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "trainer/data/image/image.h"

namespace rollcall::data {

/// How a JPEG file that repack() wrote can be read in part: it is a grid of tiles, each coded by itself.
struct Tiling {
  ImageSize size = {};                        ///< the true size; the JPEG's own header may name a wider picture
  std::span<const std::uint16_t> tile_bytes;  ///< of each tile's entropy-coded data with its marker, row by row
  int orientation = 1;                        ///< EXIF's 1 ... 8, which repack() takes out of the file
};

/// A picture as a file holds it; the bytes belong to somebody else.
struct EncodedImage {
  std::span<const std::byte> bytes;   ///< a whole JPEG or PNG file
  std::optional<Tiling> tiling = {};  ///< of a repacked JPEG
};

}  // namespace rollcall::data
