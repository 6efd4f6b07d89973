#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/data/pixels.h"

namespace rollcall::data {

/// A picture of uint8 pixels that operations change in place: [height][width][red, green, blue, unused], rows without
/// gaps. It does not own the memory. Operations may leave any value in the fourth byte.
struct UInt8Image {
  std::uint8_t* pixels = nullptr;
  int width = 0;
  int height = 0;

  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(width) * static_cast<std::size_t>(height); }
  [[nodiscard]] std::span<std::uint8_t> bytes() const { return {pixels, count() * kPixelBytes}; }
  [[nodiscard]] std::uint8_t* at(int x, int y) const {
    return pixels + (static_cast<std::ptrdiff_t>(y) * width + x) * kPixelBytes;
  }
};

/// Converts a float to uint8 as torchvision does: clamped to 0 ... 255, the fraction dropped.
[[nodiscard]] inline std::uint8_t truncate_to_uint8(float value) {
  return static_cast<std::uint8_t>(static_cast<int>(std::min(std::max(value, 0.0F), 255.0F)));
}

/// Memory that augmentation reuses. It only grows. Use one per thread.
struct AugmentScratch {
  std::vector<std::uint8_t> pixels;  ///< the picture between resize and normalisation, [height][width][4] and 16 bytes
  std::vector<std::uint8_t> copy;    ///< a copy of it for operations that cannot work in place
  std::vector<std::uint16_t> sums;   ///< a row of sums of pixels
  std::vector<float> noise;          ///< a row of random erasing's noise
  std::vector<std::uint8_t> chain;   ///< AugMix: the picture after the operations of a chain
  std::vector<float> mixed;          ///< AugMix: the weighted sum of the chains
};

}  // namespace rollcall::data
