#pragma once

#include <cstddef>
#include <cstdint>

namespace rollcall::data {

/// A rectangle of whole pixels.
struct Box {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;

  [[nodiscard]] int right() const { return left + width; }   ///< one past the last column
  [[nodiscard]] int bottom() const { return top + height; }  ///< one past the last row

  friend bool operator==(const Box&, const Box&) = default;
};

struct ImageSize {
  int width = 0;
  int height = 0;

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// Bytes of a pixel in memory: red, green, blue and one that means nothing. Four keep every pixel in one SIMD lane.
inline constexpr int kPixelBytes = 4;

/// The pixels of a part of a picture, 8 bits a channel, in memory that somebody else owns.
struct PixelView {
  const std::uint8_t* pixels = nullptr;  ///< of the area's top left corner
  std::ptrdiff_t row_bytes = 0;          ///< from a row to the next; readable: at least 16 bytes behind the last pixel
  Box area = {};                         ///< which part of the picture this is

  /// The pixel at (x, y) of the picture, which lies inside the area.
  [[nodiscard]] const std::uint8_t* at(int x, int y) const {
    return pixels + (y - area.top) * row_bytes + static_cast<std::ptrdiff_t>(x - area.left) * kPixelBytes;
  }
};

}  // namespace rollcall::data
