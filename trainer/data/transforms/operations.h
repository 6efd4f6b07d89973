#pragma once

#include <array>
#include <cstdint>

#include "trainer/data/sampling/random.h"
#include "trainer/data/transforms/augment_options.h"
#include "trainer/data/transforms/uint8_image.h"

namespace rollcall::data {

/// Returns torchvision's greyscale of a uint8 pixel: the weights of ITU-R 601 with the fraction dropped; 0 ... 254
/// (white gives 254.97, as there). Uses integers, where float32 can differ by one.
[[nodiscard]] inline std::uint32_t to_grey(const std::uint8_t* pixel) {
  return (2989U * pixel[0] + 5870U * pixel[1] + 1140U * pixel[2]) / 10000U;
}

/// Returns the mean of the picture's greyscale.
[[nodiscard]] float mean_grey(const UInt8Image& image);

/// A lookup table per channel that maps each pixel value, for operations that depend on nothing else: torchvision's v2
/// functionals on uint8 tensors, equal or off by one where float32 rounds differently.
struct ToneCurve {
  std::array<std::array<std::uint8_t, 256>, 3> channels{};

  void apply(const UInt8Image& image) const;

  /// adjust_brightness: value * factor; factor at least 0.
  static ToneCurve brightness(double factor);
  /// adjust_contrast: value * factor + mean * (1 - factor), with the mean of the picture's greyscale.
  static ToneCurve contrast(const UInt8Image& image, double factor);
  /// posterize: keeps the upper `bits` (0 ... 8) of each value.
  static ToneCurve posterize(int bits);
  /// solarize: inverts values from the threshold (0 ... 255) on.
  static ToneCurve solarize(double threshold);
  /// timm's solarize_add: adds to values below 128.
  static ToneCurve solarize_add(int added);
  /// autocontrast: stretches each channel's range to 0 ... 255.
  static ToneCurve autocontrast(const UInt8Image& image);
  /// equalize: flattens each channel's histogram, as Pillow does.
  static ToneCurve equalize(const UInt8Image& image);
};

// torchvision's v2 functionals on uint8 tensors, equal or off by one where float32 rounds differently.

/// adjust_saturation: value * factor + grey * (1 - factor); factor at least 0.
void adjust_saturation(const UInt8Image& image, double factor);

/// adjust_hue: turns the hue by `turns`, -0.5 ... 0.5, in HSV.
void adjust_hue(const UInt8Image& image, double turns);

/// torchvision's adjust_sharpness on uint8: value + (1 - factor) * (blurred - value), blurred with a 3 x 3 kernel of
/// ones with a 5 in the middle; the outermost pixels are unchanged. factor at least 0.
void adjust_sharpness(const UInt8Image& image, double factor, AugmentScratch& scratch);

/// torchvision's ColorJitter on uint8: the four operations in random order, each with a uniform factor.
class ColourJitter {
 public:
  explicit ColourJitter(const ColourJitterOptions& options) : options_(options) {}

  void apply(const UInt8Image& image, Random& random) const;

 private:
  ColourJitterOptions options_;
};

// torchvision's affine() and rotate() with nearest neighbours; pixels from outside are black. If a source position is
// halfway between two pixels, float32 rounding decides, so single pixels may differ.

/// Shears around the top left corner: each row moves right by x times its distance from the top, each column down by y
/// times its distance from the left.
void shear(const UInt8Image& image, double x, double y, AugmentScratch& scratch);

/// Moves the picture right and down by whole pixels.
void translate(const UInt8Image& image, int x, int y, AugmentScratch& scratch);

/// Rotates counter-clockwise around the centre.
void rotate(const UInt8Image& image, double degrees, AugmentScratch& scratch);

}  // namespace rollcall::data
