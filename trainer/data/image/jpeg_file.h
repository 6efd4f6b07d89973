#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/result.h"
#include "trainer/data/image/image.h"
#include "trainer/data/image/jpeg_decompressor.h"
#include "trainer/data/image/kept_memory.h"
#include "trainer/data/image/sequential_entropy_decoder.h"

namespace rollcall::data {

/// Any JPEG file as it comes, behind ImageDecoder.
class JpegFile {
 public:
  /// With `own_entropy_decoder`, SequentialEntropyDecoder for files of its kind; else libjpeg's for all.
  explicit JpegFile(bool own_entropy_decoder) : uses_own_(own_entropy_decoder) {}

  [[nodiscard]] Result<ImageSize> open(std::span<const std::byte> file) {
    Result<ImageSize> size = decompressor_.read_header(file);
    width_ = size ? size->width : 0;
    return size;
  }

  /// Whether the last decode() was by SequentialEntropyDecoder.
  [[nodiscard]] bool used_own() const { return uses_own_ && entropy_decoder_.is_attached(); }

  /// `box` is in pixels of the reduced picture.
  [[nodiscard]] Result<PixelView> decode(const Box& box, int reduction, KeptMemory& pixels) {
    return decompressor_.decode({box, (width_ + reduction - 1) / reduction, reduction}, pixels,
                                uses_own_ ? &entropy_decoder_ : nullptr);
  }

 private:
  JpegDecompressor decompressor_;
  SequentialEntropyDecoder entropy_decoder_;
  int width_ = 0;
  bool uses_own_;
};

}  // namespace rollcall::data
