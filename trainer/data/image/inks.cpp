#include "trainer/data/image/inks.h"

namespace rollcall::data {
namespace {

/// Pillow's MULDIV255: a * b / 255, rounded, without a division.
int multiply_255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

}  // namespace

void multiply_inks(std::uint8_t* pixels, std::size_t row_bytes, int width, int height) {
  for (int y = 0; y < height; ++y) {
    std::uint8_t* pixel = pixels + static_cast<std::size_t>(y) * row_bytes;
    for (int x = 0; x < width; ++x, pixel += 4) {
      const int light = pixel[3];
      for (int channel = 0; channel < 3; ++channel) {
        pixel[channel] = static_cast<std::uint8_t>(light - multiply_255(255 - pixel[channel], light));
      }
    }
  }
}

}  // namespace rollcall::data
