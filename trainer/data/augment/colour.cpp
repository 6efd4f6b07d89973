#include "trainer/data/augment/colour.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/data/augment/greyscale.h"

namespace rollcall::data {
namespace {

/// Hue in sixths of a turn, 0 ... 6; saturation and value 0 ... 1.
struct Hsv {
  float hue6 = 0;
  float saturation = 0;
  float value = 0;
};

/// Pillow's conversion, which torchvision follows. It knows only differences and ratios of levels.
Hsv to_hsv(const std::uint8_t* pixel) {
  const int r = pixel[0];
  const int g = pixel[1];
  const int b = pixel[2];
  const int most = std::max({r, g, b});
  const int range = most - std::min({r, g, b});
  if (range == 0) {
    return {0, 0, static_cast<float>(most) / 255};
  }
  const float inverse = 1.0F / static_cast<float>(range);
  float hue6 = 0;
  if (most == r) {
    hue6 = static_cast<float>(g - b) * inverse;
  } else if (most == g) {
    hue6 = 2 + static_cast<float>(b - r) * inverse;
  } else {
    hue6 = 4 + static_cast<float>(r - g) * inverse;
  }
  return {hue6 < 0 ? hue6 + 6 : hue6, static_cast<float>(range) / static_cast<float>(most),
          static_cast<float>(most) / 255};
}

/// 0 ... 1 (or a rounding error beside it) to 0 ... 255, as torchvision's to_dtype: 256 intervals of almost one length.
std::uint8_t to_level(float value) { return static_cast<std::uint8_t>(static_cast<int>(value * 255.999F)); }

/// For each sixth of a turn, which of the value, the lowest, the falling and the rising level each channel has.
constexpr std::uint8_t kChannels[6][3] = {{0, 3, 1}, {2, 0, 1}, {1, 0, 3}, {1, 2, 0}, {3, 1, 0}, {0, 1, 2}};

void from_hsv(const Hsv& colour, std::uint8_t* pixel) {
  const int sector = static_cast<int>(colour.hue6);
  const float fraction = colour.hue6 - static_cast<float>(sector);
  const std::uint8_t levels[4] = {to_level(colour.value), to_level(colour.value * (1 - colour.saturation)),
                                  to_level(colour.value * (1 - colour.saturation * fraction)),
                                  to_level(colour.value * (1 - colour.saturation * (1 - fraction)))};
  const std::uint8_t* channels = kChannels[sector < 6 ? sector : 0];
  for (int c = 0; c < 3; ++c) {
    pixel[c] = levels[channels[c]];
  }
}

}  // namespace

void adjust_saturation(const Levels& levels, double factor) {
  const auto ratio = static_cast<float>(factor);
  const auto rest = static_cast<float>(1 - factor);
  std::uint8_t* pixel = levels.pixels;
  for (std::size_t i = 0; i < levels.count(); ++i, pixel += kPixelBytes) {
    const float grey = rest * static_cast<float>(grey_of(pixel));
    for (int c = 0; c < 3; ++c) {
      pixel[c] = truncated_level(static_cast<float>(pixel[c]) * ratio + grey);
    }
  }
}

void adjust_hue(const Levels& levels, double turns) {
  const auto shift = static_cast<float>(6 * turns);
  std::uint8_t* pixel = levels.pixels;
  for (std::size_t i = 0; i < levels.count(); ++i, pixel += kPixelBytes) {
    Hsv colour = to_hsv(pixel);
    colour.hue6 += shift;
    if (colour.hue6 < 0) {
      colour.hue6 += 6;
    } else if (colour.hue6 >= 6) {
      colour.hue6 -= 6;
    }
    from_hsv(colour, pixel);
  }
}

}  // namespace rollcall::data
