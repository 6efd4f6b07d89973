#pragma once

#include <array>
#include <cstdint>

#include "trainer/data/augment/levels.h"

namespace rollcall::data {

/// What becomes of each level of each channel, whatever surrounds it. The operations that are no more than this:
/// torchvision's v2 functionals on uint8 tensors, equal or one level off where float32 rounds differently.
struct ToneCurve {
  std::array<std::array<std::uint8_t, 256>, 3> channels{};

  void apply(const Levels& levels) const;

  /// adjust_brightness: level * factor; factor at least 0.
  static ToneCurve brightness(double factor);
  /// adjust_contrast: level * factor + mean * (1 - factor), mean of the picture's greyscale.
  static ToneCurve contrast(const Levels& levels, double factor);
  /// posterize: the `bits` (0 ... 8) upper bits of each level.
  static ToneCurve posterize(int bits);
  /// solarize: levels from the threshold on (0 ... 255) are inverted.
  static ToneCurve solarize(double threshold);
  /// autocontrast: each channel's range is stretched to 0 ... 255.
  static ToneCurve autocontrast(const Levels& levels);
  /// equalize: each channel's histogram is flattened, as Pillow does it.
  static ToneCurve equalize(const Levels& levels);
};

}  // namespace rollcall::data
