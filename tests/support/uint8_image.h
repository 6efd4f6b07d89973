#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "trainer/data/transforms/uint8_image.h"

namespace rollcall::test {

/// A picture of uint8 pixels that owns its memory.
struct OwnedUInt8Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgbx;

  OwnedUInt8Image(int width_, int height_) : width(width_), height(height_) {
    rgbx.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * data::kPixelBytes);
  }

  static OwnedUInt8Image random(int width, int height, unsigned seed) {
    OwnedUInt8Image image(width, height);
    std::mt19937 bits(seed);
    for (std::uint8_t& level : image.rgbx) {
      level = static_cast<std::uint8_t>(bits());
    }
    return image;
  }

  [[nodiscard]] data::UInt8Image view() { return {rgbx.data(), width, height}; }

  [[nodiscard]] std::vector<int> rgb(int x, int y) {
    const std::uint8_t* pixel = view().at(x, y);
    return {pixel[0], pixel[1], pixel[2]};
  }

  /// Red, green and blue of all pixels: the fourth byte means nothing.
  [[nodiscard]] std::vector<int> all_rgb() {
    std::vector<int> values;
    for (std::size_t i = 0; i < rgbx.size(); ++i) {
      if (i % data::kPixelBytes != 3) {
        values.push_back(rgbx[i]);
      }
    }
    return values;
  }
};

}  // namespace rollcall::test
