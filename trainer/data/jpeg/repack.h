#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/encoded_image.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// A JPEG file cut into tiles that can be decoded one by one, and what must be kept beside it.
struct Repacked {
  std::vector<std::byte> jpeg;            ///< a valid JPEG; wider than the picture where its rows are filled up
  std::vector<std::uint16_t> tile_bytes;  ///< as in Tiling; their sum and the header make up the file
  ImageSize size = {};                    ///< the true size
  int orientation = 1;                    ///< EXIF's 1 ... 8

  /// Valid as long as this object.
  [[nodiscard]] Tiling tiling() const { return {size, tile_bytes, orientation}; }
};

/// Width of a tile in pixels, or about that: see repack(). Its height is that of one MCU, 8 or 16 as a rule.
inline constexpr int kTileWidth = 64;

/// Re-encodes a JPEG file without loss: the DCT coefficients stay the same, their entropy coding becomes baseline with
/// optimised Huffman tables and a restart marker after every tile. Metadata is dropped but for the EXIF orientation.
/// About 1 % smaller than a common file, with some 3 ms of work for 500 x 375 pixels.
///
/// Every decoder gives the original's pixels, within the picture's size. Decoders interpolate a component that has
/// fewer columns than the picture, the last one with what they find to the right: such a picture's JPEG is as wide as
/// the picture, with tiles of that divisor of a row's MCUs whose ratio to kTileWidth is the smallest (16 to 240 pixels
/// where an MCU has 16). Other pictures have tiles of kTileWidth, and their rows are filled up to whole ones with flat
/// MCUs.
///
/// Errors: BadData where the caller should keep the original bytes: a file with damage, CMYK and YCCK, more
/// than kMaxPixels, not a JPEG. Thread-safe.
[[nodiscard]] Result<Repacked> repack(std::span<const std::byte> jpeg);

}  // namespace rollcall::data
