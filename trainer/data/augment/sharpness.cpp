#include "trainer/data/augment/sharpness.h"

#include <algorithm>

namespace rollcall::data {
namespace {

/// The mean around a channel of a pixel, rounded: 13 is odd, so there are no ties.
int blurred(const std::uint8_t* middle, std::ptrdiff_t row_bytes) {
  int sum = 4 * *middle;
  for (const std::uint8_t* centre : {middle - row_bytes, middle, middle + row_bytes}) {
    sum += centre[-kPixelBytes] + centre[0] + centre[kPixelBytes];
  }
  return (2 * sum + 13) / 26;
}

}  // namespace

void adjust_sharpness(const Levels& levels, double factor, AugmentScratch& scratch) {
  if (levels.width <= 2 || levels.height <= 2) {
    return;
  }
  const auto rest = static_cast<float>(1 - factor);
  const std::ptrdiff_t row_bytes = std::ptrdiff_t{levels.width} * kPixelBytes;
  scratch.copy.assign(levels.bytes().begin(), levels.bytes().end());
  for (int y = 1; y + 1 < levels.height; ++y) {
    const std::uint8_t* from = scratch.copy.data() + y * row_bytes;
    std::uint8_t* to = levels.at(0, y);
    for (std::ptrdiff_t i = kPixelBytes; i < row_bytes - kPixelBytes; ++i) {
      const float difference = static_cast<float>(blurred(from + i, row_bytes) - from[i]);
      to[i] = truncated_level(static_cast<float>(from[i]) + rest * difference);
    }
  }
}

}  // namespace rollcall::data
