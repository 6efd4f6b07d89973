#pragma once

#include <array>
#include <cstdint>

#include "trainer/data/sampling/random.h"
#include "trainer/data/transforms/augment_options.h"
#include "trainer/data/transforms/levels.h"

namespace rollcall::data {

/// torchvision's greyscale of a pixel on uint8: ITU-R 601's weights, the fraction dropped; 0 ... 254 (255 for white is
/// 254.97 there too). In whole numbers, where float32 can be one level off.
[[nodiscard]] inline std::uint32_t grey_of(const std::uint8_t* pixel) {
  return (2989U * pixel[0] + 5870U * pixel[1] + 1140U * pixel[2]) / 10000U;
}

/// The mean of the picture's greyscale.
[[nodiscard]] float mean_grey(const Levels& levels);

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

// torchvision's v2 functionals on uint8 tensors, equal or one level off where float32 rounds differently.

/// adjust_saturation: level * factor + grey * (1 - factor); factor at least 0.
void adjust_saturation(const Levels& levels, double factor);

/// adjust_hue: turns the hue by `turns`, -0.5 ... 0.5, in HSV.
void adjust_hue(const Levels& levels, double turns);

/// torchvision's adjust_sharpness on uint8: level + (1 - factor) * (blurred - level), blurred with the 3 x 3 kernel of
/// ones and a 5 in its middle; the outermost pixels stay. factor at least 0.
void adjust_sharpness(const Levels& levels, double factor, AugmentScratch& scratch);

/// torchvision's ColorJitter on uint8: the four operations in random order, each with a uniform factor.
class ColourJitter {
 public:
  explicit ColourJitter(const ColourJitterOptions& options) : options_(options) {}

  void apply(const Levels& levels, Random& random) const;

 private:
  ColourJitterOptions options_;
};

// torchvision's affine() and rotate() with nearest neighbours; what comes from outside is black. Where a source
// position lies halfway between two pixels, float32 decides there and here: single pixels may differ.

/// Shear around the top left corner: each row moves right by x times its distance from the top, each column down by y
/// times its distance from the left.
void shear(const Levels& levels, double x, double y, AugmentScratch& scratch);

/// Moves the picture right and down by whole pixels.
void translate(const Levels& levels, int x, int y, AugmentScratch& scratch);

/// Rotates counter-clockwise around the centre.
void rotate(const Levels& levels, double degrees, AugmentScratch& scratch);

}  // namespace rollcall::data
