#pragma once

#include "trainer/data/pixels.h"
#include "trainer/data/sampling/random.h"
#include "trainer/data/transforms/augment_options.h"
#include "trainer/data/transforms/uint8_image.h"

namespace rollcall::data {

/// The operations of RandAugment and TrivialAugmentWide, in the order of torchvision's tables.
enum class Operation {
  Identity,
  ShearX,
  ShearY,
  TranslateX,
  TranslateY,
  Rotate,
  Brightness,
  Colour,
  Contrast,
  Sharpness,
  Posterize,
  Solarize,
  AutoContrast,
  Equalize,
};

inline constexpr int kOperations = 14;

/// Applies an operation as torchvision does. The magnitude is a shear's slope, pixels, degrees, the difference of a
/// factor from 1, bits, or a fraction of 255. Identity, AutoContrast and Equalize ignore it.
void apply(Operation operation, double magnitude, const UInt8Image& image, AugmentScratch& scratch);

inline constexpr int kMagnitudeBins = 31;

/// Returns the magnitude of an operation at bin 0 ... 30 of a policy (not None) for pictures of this size:
/// torchvision's tables, with its float32 steps. 0 for operations without a magnitude.
[[nodiscard]] double magnitude_of(AugmentPolicy policy, Operation operation, int bin, ImageSize size);

/// Returns whether the sign of the magnitude is random.
[[nodiscard]] bool is_signed(Operation operation);

/// RandAugment (Cubuk, Zoph, Shlens, Le, CVPR workshops 2020): applies `operations` operations, each chosen uniformly
/// from the 14, at a fixed bin with a random sign. As torchvision, it lacks the paper's Invert.
class RandAugment {
 public:
  /// operations at least 0, magnitude 0 ... 30.
  RandAugment(int operations, int magnitude) : operations_(operations), magnitude_(magnitude) {}

  void apply(const UInt8Image& image, Random& random, AugmentScratch& scratch) const;

 private:
  int operations_;
  int magnitude_;
};

/// TrivialAugmentWide (Müller, Hutter, ICCV 2021): one operation at a random bin, both uniform.
class TrivialAugmentWide {
 public:
  void apply(const UInt8Image& image, Random& random, AugmentScratch& scratch) const;
};

}  // namespace rollcall::data
