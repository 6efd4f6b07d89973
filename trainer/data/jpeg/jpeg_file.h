#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/base/result.h"
#include "trainer/data/encoded_image.h"
#include "trainer/data/jpeg/decompressor.h"
#include "trainer/data/jpeg/entropy_decoder.h"
#include "trainer/data/jpeg/tiles.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// Decodes any JPEG file for ImageDecoder.
class JpegFile {
 public:
  /// `own_entropy_decoder` selects make_sequential_entropy_decoder() for the files that it supports, else libjpeg's.
  explicit JpegFile(bool own_entropy_decoder)
      : entropy_decoder_(own_entropy_decoder ? make_sequential_entropy_decoder() : nullptr) {}

  [[nodiscard]] Result<ImageSize> open(std::span<const std::byte> file) {
    Result<ImageSize> size = decompressor_.read_header(file);
    width_ = size ? size->width : 0;
    return size;
  }

  /// Returns whether the last decode() used our own entropy decoder.
  [[nodiscard]] bool used_own() const { return entropy_decoder_ && entropy_decoder_->is_attached(); }

  /// `box` is in pixels of the reduced picture.
  [[nodiscard]] Result<PixelView> decode(const Box& box, int reduction, ReusableBuffer& pixels) {
    return decompressor_.decode({box, (width_ + reduction - 1) / reduction, reduction}, pixels, entropy_decoder_.get());
  }

 private:
  JpegDecompressor decompressor_;
  std::unique_ptr<EntropyDecoder> entropy_decoder_;  ///< null: libjpeg's
  int width_ = 0;
};

/// Decodes a JPEG file that repack() wrote for ImageDecoder: reads only the tiles that a box needs.
class TiledJpeg {
 public:
  /// `own_entropy_decoder` selects make_tile_entropy_decoder(), else libjpeg's, on a splice of the tiles.
  explicit TiledJpeg(bool own_entropy_decoder)
      : entropy_decoder_(own_entropy_decoder ? make_tile_entropy_decoder() : nullptr) {}

  /// The bytes and the tile lengths must stay valid until the last decode().
  [[nodiscard]] Result<ImageSize> open(std::span<const std::byte> file, const Tiling& tiling);

  [[nodiscard]] bool can_be_halved() const { return grid_.can_be_halved; }

  /// `box` is in pixels of the reduced picture.
  [[nodiscard]] Result<PixelView> decode(const Box& box, int reduction, ReusableBuffer& pixels);

 private:
  [[nodiscard]] Result<PixelView> decode_range(const TileRange& range, const JpegCrop& crop, ReusableBuffer& pixels);

  std::span<const std::byte> file_;
  TileGrid grid_;
  JpegDecompressor decompressor_;
  std::unique_ptr<TileEntropyDecoder> entropy_decoder_;  ///< null: libjpeg's
  ReusableBuffer spliced_;
};

}  // namespace rollcall::data
