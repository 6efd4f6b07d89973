#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/data/pixels.h"

namespace rollcall::data {

/// A picture of 8-bit levels that operations change in place: [height][width][red, green, blue, unused], rows without
/// gaps, in memory that somebody else owns. What an operation leaves in the fourth byte means nothing.
struct Levels {
  std::uint8_t* pixels = nullptr;
  int width = 0;
  int height = 0;

  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(width) * static_cast<std::size_t>(height); }
  [[nodiscard]] std::span<std::uint8_t> bytes() const { return {pixels, count() * kPixelBytes}; }
  [[nodiscard]] std::uint8_t* at(int x, int y) const {
    return pixels + (static_cast<std::ptrdiff_t>(y) * width + x) * kPixelBytes;
  }
};

/// What a float between the levels becomes in torchvision: cut to 0 ... 255, its fraction dropped.
[[nodiscard]] inline std::uint8_t truncated_level(float value) {
  return static_cast<std::uint8_t>(static_cast<int>(std::min(std::max(value, 0.0F), 255.0F)));
}

/// Memory that augmentation reuses; it only grows. One for each thread.
struct AugmentScratch {
  std::vector<std::uint8_t> pixels;  ///< a resized picture between its operations, [height][width][4] and 16 bytes
  std::vector<std::uint8_t> copy;    ///< the same before an operation that cannot work in place
  std::vector<std::uint16_t> sums;   ///< a row of sums of levels
  std::vector<float> noise;          ///< a row of what random erasing writes
};

}  // namespace rollcall::data
