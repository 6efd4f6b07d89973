#pragma once

#include "trainer/data/augment/levels.h"
#include "trainer/data/augment/scratch.h"

namespace rollcall::data {

/// What RandAugment and TrivialAugmentWide choose from, in the order of torchvision's tables.
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

/// Carries out an operation as torchvision does at this magnitude: a shear's slope, pixels, degrees, what is added to a
/// factor of 1, bits, or a part of 255. Identity, AutoContrast and Equalize have none.
void apply(Operation operation, double magnitude, const Levels& levels, AugmentScratch& scratch);

}  // namespace rollcall::data
