#pragma once

namespace rollcall::data {

/// Options of torchvision's ColorJitter: factors are drawn from [max(0, 1 - x), 1 + x], the shift of the hue from
/// [-hue, hue] turns. The four operations run in random order. 0 disables an operation.
struct ColourJitterOptions {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;  ///< 0 ... 0.5

  [[nodiscard]] bool any() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }
};

/// Policies that choose some operations of a set for each picture.
enum class AugmentPolicy {
  None,
  RandAugment,         ///< Cubuk et al., 2020; torchvision's RandAugment
  TrivialAugmentWide,  ///< Müller and Hutter, 2021; torchvision's TrivialAugmentWide
  TimmRandAugment,     ///< timm's RandAugment with increasing severity
  AugMix,              ///< Hendrycks et al., 2020; timm's AugMixAugment
  ThreeAugment,        ///< Touvron, Cord, Jégou, 2022
};

/// The value that random erasing fills its box with, after normalisation.
enum class EraseValue {
  Zero,
  Random,  ///< a standard normal draw for each element
};

/// Augmentation of training pictures besides crop, flip and normalisation. By default there is none, and a picture is
/// converted from its resize directly to the model's type. The order is that of torchvision's reference training:
/// policy, colour jitter, normalisation, erasing; mixup and cutmix on whole batches.
struct AugmentOptions {
  ColourJitterOptions colour_jitter = {};
  AugmentPolicy policy = AugmentPolicy::None;
  int randaugment_ops = 2;        ///< number of operations per picture, at least 0
  int randaugment_magnitude = 9;  ///< 0 ... 30
  double randaugment_mstd = 0.5;  ///< TimmRandAugment: deviation of the magnitude
  double erase_probability = 0;
  EraseValue erase_value = EraseValue::Zero;
  double mixup_alpha =
      0;  ///< alpha of Beta(alpha, alpha); 0: no mixup. With both, each batch randomly gets one of them
  double cutmix_alpha = 0;  ///< as mixup_alpha; 0: no cutmix

  /// Returns whether pictures are uint8 pixels between resize and normalisation.
  [[nodiscard]] bool needs_uint8() const { return policy != AugmentPolicy::None || colour_jitter.any(); }
  [[nodiscard]] bool mixes_batches() const { return mixup_alpha > 0 || cutmix_alpha > 0; }
};

}  // namespace rollcall::data
