#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/image/image.h"

namespace rollcall::pack {

/// A baseline JPEG file (4:2:0, optimised Huffman tables) of [height][width][4] bytes red, green, blue and one that
/// means nothing. An `orientation` other than 1 is kept as an EXIF block. Error (Internal): libjpeg refused, no memory.
[[nodiscard]] Result<std::vector<std::byte>> encode_jpeg(std::span<const std::uint8_t> pixels, data::ImageSize size,
                                                         int quality, int orientation);

}  // namespace rollcall::pack
