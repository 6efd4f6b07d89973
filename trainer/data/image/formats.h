#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/image/decode.h"

namespace rollcall::data {

/// A decoded picture in memory of its own.
struct Picture {
  ImageSize size = {};
  std::vector<std::uint8_t> pixels;  ///< [height][width][4], and the room behind the last pixel that PixelView asks for
};

// One function a format, behind ImageDecoder.
[[nodiscard]] Result<Picture> decode_jpeg(std::span<const std::byte> file);
[[nodiscard]] Result<Picture> decode_png(std::span<const std::byte> file);

/// The Error for a file that cannot be decoded; the caller adds its name.
[[nodiscard]] Error damaged(std::string reason);

/// Whether a header's size is one that ImageDecoder takes.
[[nodiscard]] bool size_is_sane(long long width, long long height);

}  // namespace rollcall::data
