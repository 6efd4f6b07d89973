#pragma once

namespace rollcall::data {

/// torchvision's ColorJitter: factors drawn from [max(0, 1 - x), 1 + x], the hue's shift from [-hue, hue] turns; the
/// four operations in random order. 0: not done.
struct ColourJitterOptions {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;  ///< 0 ... 0.5

  [[nodiscard]] bool any() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }
};

/// Sets of operations of which some are chosen for each picture.
enum class AugmentPolicy {
  None,
  RandAugment,         ///< Cubuk et al., 2020; torchvision's RandAugment
  TrivialAugmentWide,  ///< Müller and Hutter, 2021; torchvision's TrivialAugmentWide
};

/// What random erasing fills its box with, on the normalised scale.
enum class EraseValue {
  Zero,
  Random,  ///< a standard normal draw for each element
};

/// What is done with training pictures beyond crop, flip and normalisation. Nothing by default; the picture then goes
/// from its resize straight to the model's type. The order is torchvision's reference training's: policy, colour
/// jitter, normalisation, erasing; mixup and cutmix on whole batches.
struct AugmentOptions {
  ColourJitterOptions colour_jitter = {};
  AugmentPolicy policy = AugmentPolicy::None;
  int randaugment_ops = 2;        ///< operations for a picture, at least 0
  int randaugment_magnitude = 9;  ///< 0 ... 30
  double erase_probability = 0;
  EraseValue erase_value = EraseValue::Zero;
  double mixup_alpha = 0;   ///< of Beta(alpha, alpha); 0: no mixup. With both, each batch gets one of them, by halves
  double cutmix_alpha = 0;  ///< ... no cutmix

  /// Whether pictures pass through 8-bit levels between resize and normalisation.
  [[nodiscard]] bool changes_levels() const { return policy != AugmentPolicy::None || colour_jitter.any(); }
  [[nodiscard]] bool mixes_batches() const { return mixup_alpha > 0 || cutmix_alpha > 0; }
};

}  // namespace rollcall::data
