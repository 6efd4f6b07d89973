#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/result.h"
#include "trainer/data/image/encoded_image.h"
#include "trainer/data/image/entropy_decoder.h"
#include "trainer/data/image/image.h"
#include "trainer/data/image/jpeg_decompressor.h"
#include "trainer/data/image/kept_memory.h"
#include "trainer/data/image/tile_grid.h"

namespace rollcall::data {

/// A JPEG file that repack() wrote, behind ImageDecoder: reads the tiles that a box needs and no others.
class TiledJpeg {
 public:
  /// With `own_entropy_decoder`, TileEntropyDecoder; else libjpeg's, on a splice of the tiles.
  explicit TiledJpeg(bool own_entropy_decoder) : uses_own_(own_entropy_decoder) {}

  /// The bytes and the tile lengths must stay until the last decode().
  [[nodiscard]] Result<ImageSize> open(std::span<const std::byte> file, const Tiling& tiling);

  [[nodiscard]] bool can_be_halved() const { return grid_.can_be_halved; }

  /// `box` is in pixels of the reduced picture.
  [[nodiscard]] Result<PixelView> decode(const Box& box, int reduction, KeptMemory& pixels);

 private:
  [[nodiscard]] Result<PixelView> decode_range(const TileRange& range, const JpegWindow& window, KeptMemory& pixels);

  std::span<const std::byte> file_;
  TileGrid grid_;
  JpegDecompressor decompressor_;
  TileEntropyDecoder entropy_decoder_;
  KeptMemory spliced_;
  bool uses_own_;
};

}  // namespace rollcall::data
