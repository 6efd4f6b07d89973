#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/result.h"
#include "trainer/data/image/image.h"
#include "trainer/data/image/jpeg_decompressor.h"
#include "trainer/data/image/kept_memory.h"

namespace rollcall::data {

/// Any JPEG file as it comes, behind ImageDecoder.
class JpegFile {
 public:
  [[nodiscard]] Result<ImageSize> open(std::span<const std::byte> file) {
    Result<ImageSize> size = decompressor_.read_header(file);
    width_ = size ? size->width : 0;
    return size;
  }

  /// `box` is in pixels of the reduced picture.
  [[nodiscard]] Result<PixelView> decode(const Box& box, int reduction, KeptMemory& pixels) {
    return decompressor_.decode({box, (width_ + reduction - 1) / reduction, reduction}, pixels, nullptr);
  }

 private:
  JpegDecompressor decompressor_;
  int width_ = 0;
};

}  // namespace rollcall::data
