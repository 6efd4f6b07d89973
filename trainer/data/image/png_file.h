#pragma once

#include <png.h>
#include <cstddef>
#include <span>

#include "runtime/base/result.h"
#include "trainer/data/image/image.h"
#include "trainer/data/image/kept_memory.h"

namespace rollcall::data {

/// A PNG file, behind ImageDecoder. libpng has no way to a part of a picture: it is decoded whole.
class PngFile {
 public:
  PngFile() = default;
  ~PngFile();
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;

  /// The bytes must stay until decode(). Errors: BadData.
  [[nodiscard]] Result<ImageSize> open(std::span<const std::byte> file);
  [[nodiscard]] Result<PixelView> decode(KeptMemory& pixels);

 private:
  [[nodiscard]] Result<void> read_header();
  [[nodiscard]] Error failure() const;

  std::span<const std::byte> file_;
  png_image image_{};
};

}  // namespace rollcall::data
