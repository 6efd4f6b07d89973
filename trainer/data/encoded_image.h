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

/// Most pixels that a picture may have: Pillow's limit against decompression bombs.
inline constexpr long long kMaxPixels = 178'956'970;

/// The Error (BadData) for a file that cannot be decoded; the caller adds its name.
[[nodiscard]] inline Error damaged(std::string reason) {
  return fail("--data", "", std::move(reason), "replacing or removing the file", ErrorKind::BadData);
}

[[nodiscard]] inline Error no_memory() { return damaged("cannot be decoded: out of memory"); }

/// Success, or the Error for a header's size that no decoder takes.
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
