#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "runtime/base/result.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// The tiles of a JPEG file that repack() wrote. Each tile is entropy-coded by itself, so a part of the picture can be
/// decoded alone.
struct Tiling {
  ImageSize size = {};  ///< the picture's true size; the JPEG's own header may name a wider picture
  std::span<const std::uint16_t> tile_bytes;  ///< bytes of each tile's entropy-coded data with its marker, row by row
  int orientation = 1;                        ///< EXIF orientation, 1 ... 8; repack() removes it from the file
};

/// A picture in the encoding of its file. It does not own the bytes.
struct EncodedImage {
  std::span<const std::byte> bytes;   ///< a whole JPEG or PNG file
  std::optional<Tiling> tiling = {};  ///< set for a repacked JPEG
};

/// The maximum number of pixels of a picture: Pillow's limit against decompression bombs.
inline constexpr long long kMaxPixels = 178'956'970;

/// Returns the Error (BadData) for a file that cannot be decoded. The caller adds the file's name.
[[nodiscard]] inline Error damaged(std::string reason) {
  return fail("--data", "", std::move(reason), "replacing or removing the file", ErrorKind::BadData);
}

[[nodiscard]] inline Error no_memory() { return damaged("cannot be decoded: out of memory"); }

/// Returns an Error if no decoder accepts an image of this size.
[[nodiscard]] inline Result<void> check_size(long long width, long long height) {
  if (width < 1 || height < 1) {
    return damaged("has no pixels");
  }
  if (width > kMaxPixels / height) {
    return damaged("has " + std::to_string(width) + " x " + std::to_string(height) + " pixels, more than " +
                   std::to_string(kMaxPixels));
  }
  return {};
}

}  // namespace rollcall::data
