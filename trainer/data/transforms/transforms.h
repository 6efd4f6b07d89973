#pragma once

#include <array>
#include <optional>
#include <variant>

#include "trainer/data/image/resize.h"
#include "trainer/data/pixels.h"
#include "trainer/data/sampling/random.h"
#include "trainer/data/transforms/augment_options.h"
#include "trainer/data/transforms/uint8_image.h"

namespace rollcall::data {

/// Normalisation of each channel: (value / 255 - mean) / std; ImageNet's values by default.
struct Normalisation {
  std::array<double, 3> mean{0.485, 0.456, 0.406};
  std::array<double, 3> stddev{0.229, 0.224, 0.225};

  /// Returns the same map as one multiplication and one addition on values 0 ... 255.
  [[nodiscard]] ChannelAffine affine() const;
  /// Returns the colour that is nearest to 0 after normalisation.
  [[nodiscard]] std::array<std::uint8_t, 3> mean_levels() const;
  /// Returns the uint8 value whose normalised value is nearest to `value`.
  [[nodiscard]] std::uint8_t nearest_uint8(float value, std::size_t channel) const;
};

/// Random erasing (Zhong, Zheng, Kang, Li, Yang, AAAI 2020), as torchvision: with the given probability, overwrites a
/// box with 0.02 to 0.33 of the area and a height/width from 0.3 to 3.3 (uniform in its logarithm) after normalisation.
class RandomErasing {
 public:
  explicit RandomErasing(double probability, EraseValue value = EraseValue::Zero)
      : probability_(probability), value_(value) {}

  /// Returns the box to overwrite, or nothing: by chance, or because ten tries did not fit.
  [[nodiscard]] std::optional<Box> choose(ImageSize size, Random& random) const;
  /// uint8 pixels are set to the values whose `normalisation` is nearest to the erase value.
  void apply(const OutputPixels& out, Random& random, AugmentScratch& scratch,
             const Normalisation& normalisation = {}) const;

 private:
  double probability_;
  EraseValue value_;
};

/// torchvision's RandomResizedCrop: ten tries of a box with a random part of the area (uniform) and a random
/// width/height (uniform in its logarithm), placed uniformly; else the largest centred box within the range of ratios.
struct RandomCrop {
  double scale_min = 0.08;
  double scale_max = 1.0;
  double ratio_min = 3.0 / 4.0;
  double ratio_max = 4.0 / 3.0;

  [[nodiscard]] Box choose(int width, int height, Random& random) const;
};

/// RandomResizedCrop to image_size x image_size, flips, augmentation, and normalisation (unless the output is uint8).
struct TrainTransform {
  int image_size = 224;
  RandomCrop crop = {};
  double flip_probability = 0.5;           ///< left to right
  double vertical_flip_probability = 0.0;  ///< upside down
  Interpolation interpolation = Interpolation::Bilinear;
  Normalisation normalisation = {};
  AugmentOptions augment = {};

  /// Chooses the part of a picture of this size that is resized. Thread-safe; all randomness comes from `random`.
  [[nodiscard]] Resize plan(ImageSize size, Random& random) const;
  /// Applies the plan to the decoded pixels: `view` covers needed(plan), `out` is image_size x image_size.
  void apply(const PixelView& view, const Resize& plan, Random& random, const OutputPixels& out,
             AugmentScratch& scratch) const;
};

/// Resize(resize_size) of the shorter side, CenterCrop(image_size) and normalisation, with torchvision's rounding.
struct EvalTransform {
  int image_size = 224;
  int resize_size = 256;  ///< at least image_size
  Interpolation interpolation = Interpolation::Bilinear;
  Normalisation normalisation = {};

  // The members of TrainTransform; these do not use `random`.
  [[nodiscard]] Resize plan(ImageSize size, Random& random) const;
  void apply(const PixelView& view, const Resize& plan, Random& random, const OutputPixels& out,
             AugmentScratch& scratch) const;
};

/// The transform of decoded pictures.
using Transform = std::variant<TrainTransform, EvalTransform>;

}  // namespace rollcall::data
