#pragma once

#include <cstdint>

#include "trainer/data/augment/levels.h"

namespace rollcall::data {

/// torchvision's greyscale of a pixel on uint8: ITU-R 601's weights, the fraction dropped; 0 ... 254 (255 for white is
/// 254.97 there too). In whole numbers, where float32 can be one level off.
[[nodiscard]] inline std::uint32_t grey_of(const std::uint8_t* pixel) {
  return (2989U * pixel[0] + 5870U * pixel[1] + 1140U * pixel[2]) / 10000U;
}

/// The mean of the picture's greyscale.
[[nodiscard]] float mean_grey(const Levels& levels);

}  // namespace rollcall::data
